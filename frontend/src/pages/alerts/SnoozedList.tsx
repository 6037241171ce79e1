import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { type Snooze, snoozesQuery, useEndSnooze } from "@/api/alertRules";
import { TAKES_OPERATOR, useMayOperate } from "@/api/session";
import { Age } from "@/components/Age";
import { EmptyState } from "@/components/EmptyState";
import { ErrorState } from "@/components/ErrorState";
import { Moment } from "@/components/Moment";
import { ReasonDialog } from "@/components/ReasonDialog";
import { Skeletons } from "@/components/Skeletons";
import { Table } from "@/components/Table";
import { visible } from "@/format";

function EndSnooze({ snooze, onClose }: { snooze: Snooze; onClose: () => void }) {
  const end = useEndSnooze(snooze.id);
  return (
    <ReasonDialog
      title={`End the snooze of ${visible(snooze.title)}?`}
      submit="End snooze"
      asking={end}
      refused="Snooze not ended"
      onClose={onClose}
      onSubmit={(reason) => end.mutate(reason, { onSuccess: onClose })}
    >
      <p>Alerts that are still active notify within seconds.</p>
    </ReasonDialog>
  );
}

/** The snoozed alerts and rules. */
export function SnoozedList() {
  const { data, error, isPending } = useQuery(snoozesQuery);
  const mayOperate = useMayOperate();
  const [ending, setEnding] = useState<Snooze | null>(null);
  return (
    <>
      {error && <ErrorState title="Snoozes unavailable" error={error} />}
      {isPending && <Skeletons heights={[120]} />}
      {data?.length === 0 && (
        <EmptyState title="Nothing is snoozed" action={<Link to="/alerts">Open alerts</Link>}>
          Snooze an alert, or all alerts of a rule, to suspend its notifications for a time. It stays visible.
        </EmptyState>
      )}
      {data && data.length > 0 && (
        <Table
          label="Snoozed"
          columns={[
            "Snoozed",
            { label: "Until", className: "num" },
            { label: "Reason", className: "wide-only" },
            { label: <span className="unseen">Actions</span> },
          ]}
        >
          {data.map((snooze) => (
            <tr key={snooze.id} data-row data-snooze={snooze.id}>
              <td className="anywhere">
                {snooze.alert === null ? (
                  <Link to="/alerts" search={{ view: "rules", rule: snooze.rule ?? undefined }} className="strong" data-open>
                    {visible(snooze.title)}
                  </Link>
                ) : (
                  <Link to="/alerts" search={{ alert: snooze.alert }} className="strong" data-open>
                    {visible(snooze.message || snooze.title)}
                  </Link>
                )}
                <div className="small soft">
                  {snooze.rule !== null ? "all alerts of the rule" : visible(snooze.title)}
                  {snooze.run && ` · ${snooze.run}`}
                </div>
                <div className="narrow-only small">“{visible(snooze.reason)}”</div>
              </td>
              <td className="num soft">{snooze.until ? <Moment at={snooze.until} /> : "until ended"}</td>
              <td className="anywhere wide-only">
                “{visible(snooze.reason)}”
                <div className="small soft">
                  {visible(snooze.created_by)}, <Age at={snooze.created_at} suffix=" ago" />
                </div>
              </td>
              <td className="num">
                <Button
                  size="compact-sm"
                  variant="default"
                  disabled={!mayOperate}
                  title={mayOperate ? undefined : TAKES_OPERATOR}
                  aria-label={`End the snooze of ${visible(snooze.title)}`}
                  onClick={() => setEnding(snooze)}
                >
                  End…
                </Button>
              </td>
            </tr>
          ))}
        </Table>
      )}
      {ending && <EndSnooze snooze={ending} onClose={() => setEnding(null)} />}
    </>
  );
}
