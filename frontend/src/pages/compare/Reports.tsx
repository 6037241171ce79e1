import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { TAKES_OPERATOR, useMayOperate } from "@/api/session";
import { Age } from "@/components/Age";
import { ErrorState } from "@/components/ErrorState";
import { Panel } from "@/components/Panel";
import { ReasonDialog } from "@/components/ReasonDialog";
import { number, visible } from "@/format";
import { type Comparison, comparisonQuery, comparisonsQuery, useDeleteComparison } from "@/pages/compare/api";
import css from "./compare.module.css";
import { searchOfComparison } from "./reports";

function DeleteReport({ comparison, onClose, onGone }: { comparison: Comparison; onClose: () => void; onGone: () => void }) {
  const remove = useDeleteComparison(comparison.id);
  const submit = (reason: string) =>
    remove.mutate(reason, {
      onSuccess: () => {
        onClose();
        onGone();
      },
    });
  return (
    <ReasonDialog
      title={`Delete the report ${visible(comparison.name)}?`}
      asking={remove}
      refused="Report not deleted"
      submit="Delete report"
      destroys
      onSubmit={submit}
      onClose={onClose}
    >
      <p className="small">Its link stops working. The runs are not affected.</p>
    </ReasonDialog>
  );
}

/** The open report: name and description. */
export function ReportHead({ id, onGone }: { id: number; onGone: () => void }) {
  const { data, error } = useQuery(comparisonQuery(id));
  const mayOperate = useMayOperate();
  const [isAsking, setAsking] = useState(false);
  if (error && !data) return <ErrorState title="Report unavailable" error={error} />;
  if (!data) return null;
  return (
    <section className="panel" aria-label="Report" data-report={id}>
      <div className={css.reportHead}>
        <h2 className="anywhere">{visible(data.name)}</h2>
        <span className="faint small">
          saved by {visible(data.created_by)} <Age at={data.created_at} suffix=" ago" />
        </span>
        <span className="spacer" />
        <Button
          size="compact-sm"
          variant="default"
          disabled={!mayOperate}
          title={mayOperate ? undefined : TAKES_OPERATOR}
          onClick={() => setAsking(true)}
        >
          Delete…
        </Button>
      </div>
      {data.remarks && <p className={css.remarks}>{visible(data.remarks)}</p>}
      {isAsking && <DeleteReport comparison={data} onClose={() => setAsking(false)} onGone={onGone} />}
    </section>
  );
}

/** All saved reports, shown while no runs are selected. */
export function ReportList() {
  const { data, error } = useQuery(comparisonsQuery);
  if (error && !data) return <ErrorState title="Reports unavailable" error={error} />;
  if (!data?.length) return null;
  return (
    <Panel title="Reports" note="saved comparisons">
      <ul className={css.reports}>
        {data.map((each) => (
          <li key={each.id}>
            <Link to="/compare" search={searchOfComparison(each)}>
              {visible(each.name)}
            </Link>{" "}
            <span className="faint small">
              {number(each.view.runs.length)} runs, saved by {visible(each.created_by)} <Age at={each.created_at} suffix=" ago" />
            </span>
          </li>
        ))}
      </ul>
    </Panel>
  );
}
