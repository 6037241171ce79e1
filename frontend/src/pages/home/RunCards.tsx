import { Button, Progress } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { DIAGNOSES_AT_MOST, type Diagnosis, diagnosesQuery } from "@/api/pipeline";
import { AppLink } from "@/components/AppLink";
import { RunChip, useIsProven } from "@/components/RunChip";
import { Spark } from "@/components/Spark";
import { Table } from "@/components/Table";
import { count, number, visible } from "@/format";
import { progress } from "@/pages/home/attention";
import { currentDiagnosis } from "@/pages/run/diagnosis/current";
import { environmentOf } from "@/pages/runs/environment";
import { Queued } from "@/pages/runs/Queued";
import { RETURN_MEANING, type ShownRun } from "@/pages/runs/rows";
import css from "./home.module.css";

function Card({ run, diagnosis, me }: { run: ShownRun; diagnosis: Diagnosis | undefined; me: string | undefined }) {
  const part = progress(run);
  const returns = run.returns ?? [];
  const isProven = useIsProven(run, run.observed_at, run.isUnread);
  return (
    <article
      className={`panel ${css.card}`}
      data-row
      data-run={run.name}
      data-unproven={!isProven || undefined}
      aria-label={`Run ${run.name}`}
    >
      <div className={css.top}>
        <Link to="/runs/$name" params={{ name: run.name }} className={`anywhere ${css.name}`} data-open>
          {run.name}
        </Link>
        <RunChip run={run} observedAt={run.observed_at} reason={run.fleet_reason} />
      </div>
      <div className={`small soft ${css.what}`} title={visible(environmentOf(run))}>
        {visible(environmentOf(run))}
        {run.created_by && run.created_by !== me && <> · {visible(run.created_by)}</>}
      </div>
      <dl className={css.numbers}>
        <div>
          <dt>Train step</dt>
          <dd data-figure="step">
            {number(run.served_steps)}
            {run.num_steps > 0 && <span className="faint"> / {count(run.num_steps)}</span>}
          </dd>
        </div>
        <div>
          <dt title={RETURN_MEANING[run.return_source ?? ""]}>{run.return_source === "scores" ? "Score" : "Return"}</dt>
          <dd data-figure="return">{number(run.return_mean)}</dd>
        </div>
        <div>
          <dt title="Sequences or fragments waiting for a trainer">Queue</dt>
          <dd data-figure="queue">
            <Queued run={run} />
          </dd>
        </div>
        <div className={css.trend}>
          <dt className="unseen">Trend</dt>
          <dd>
            {returns.length > 1 ? (
              <Spark values={returns} label={`Return of ${run.name} over time`} />
            ) : (
              <span className="unseen">none yet</span>
            )}
          </dd>
        </div>
      </dl>
      {part !== null && <Progress size={3} value={100 * part} aria-label={`Train steps of ${run.name}`} />}
      <p className={`small soft two-lines ${css.diagnosis}`} title={visible(diagnosis?.summary ?? "")}>
        {visible(diagnosis?.summary ?? "")}
      </p>
    </article>
  );
}

/** The active runs, the user's own first; `inAll` includes those that were not loaded. */
export function RunCards({ runs, inAll, me }: { runs: ShownRun[]; inAll: number; me: string | undefined }) {
  const shown = runs.slice(0, DIAGNOSES_AT_MOST);
  const diagnoses = useQuery(diagnosesQuery(shown.map(({ id }) => id))).data ?? {};
  return (
    <section aria-label="Active runs">
      <div className={css.heading}>
        <h2>Active runs</h2>
        <span className="faint small">{number(inAll)}</span>
        <span className="spacer" />
        {inAll > shown.length && (
          <Button component={AppLink} to="/runs?q=is%3Aactive" size="compact-sm" variant="default">
            All {number(inAll)}
          </Button>
        )}
      </div>
      <div className={css.cards}>
        {shown.map((run) => (
          <Card key={run.id} run={run} diagnosis={currentDiagnosis(diagnoses[run.id], run)} me={me} />
        ))}
      </div>
    </section>
  );
}

/** Recently finished runs. */
export function Finished({ runs }: { runs: ShownRun[] }) {
  if (runs.length === 0) return null;
  return (
    <section className="panel" aria-label="Recently finished">
      <div className="panel-head">
        <h2>Recently finished</h2>
      </div>
      <Table
        columns={[
          "Run",
          { label: "Ended", className: "wide-only" },
          { label: "Train steps", className: "num wide-only" },
          { label: "Return", className: "num wide-only" },
          { label: "Trend", className: "wide-only" },
          { label: "Reason", className: "wide-only" },
        ]}
      >
        {runs.map((run) => (
          <tr key={run.id} data-row className="opens">
            <td>
              <Link to="/runs/$name" params={{ name: run.name }} className="strong run-name" data-open>
                {run.name}
              </Link>
              <div className="narrow-only">
                <RunChip run={run} observedAt={run.observed_at} reason={run.fleet_reason} />
              </div>
            </td>
            <td className="wide-only">
              <RunChip run={run} observedAt={run.observed_at} reason={run.fleet_reason} />
            </td>
            <td className="num wide-only">{number(run.served_steps)}</td>
            <td className="num wide-only">{number(run.return_mean)}</td>
            <td className="wide-only">{run.returns && <Spark values={run.returns} label={`Return of ${run.name} over time`} />}</td>
            <td className="wide-only soft small anywhere">{visible(run.status_reason)}</td>
          </tr>
        ))}
      </Table>
    </section>
  );
}
