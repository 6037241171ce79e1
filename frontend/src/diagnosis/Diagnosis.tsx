import { Paper, Text } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { Diagnosis as RunDiagnosis } from "@/api/queue";
import type { RunSummary } from "@/api/types";
import { Age } from "@/components/inline";
import { Outdated } from "@/components/panels";
import { counted, visible } from "@/format";
import css from "./diagnosis.module.css";

/** The diagnosis, unless it was made under a different run status, for example before a pause. */
export function currentDiagnosis(diagnosis: RunDiagnosis | undefined, run: Pick<RunSummary, "status">): RunDiagnosis | undefined {
  return diagnosis?.run_status === run.status ? diagnosis : undefined;
}

const Evidence = ({ of }: { of: string[] }) => of.length > 0 && <p className="small soft anywhere">{of.map(visible).join(" · ")}</p>;

/** The most harmful cause in one sentence, its evidence and the recommended action, and further causes. */
export function Diagnosis({ diagnosis: { summary, since, evidence, change, further, stage } }: { diagnosis: RunDiagnosis }) {
  return (
    <Paper className={css.diagnosis} component="section" aria-label="Diagnosis" data-stage={stage ?? "none"}>
      <h2>{visible(summary)}</h2>
      <Outdated />
      {since && (
        <p className="small soft">
          For <Age at={since} />
        </p>
      )}
      <Evidence of={evidence} />
      {change && (
        <p className="small">
          <b>Recommended action</b> {visible(change)}
        </p>
      )}
      {further.map((cause) => (
        <div key={cause.kind} className="small">
          <b>{visible(cause.summary)}</b> {visible(cause.change)}
          <Evidence of={cause.evidence} />
        </div>
      ))}
    </Paper>
  );
}

type Props = { run: string; diagnosis: RunDiagnosis | undefined; className?: string };

/** A short form for other pages: the diagnosis, the action, and a link to the evidence. */
export function DiagnosisLine({ run, diagnosis, className = "" }: Props) {
  return (
    <section className={`${css.line} ${className}`} aria-label="Diagnosis" data-stage={diagnosis?.stage ?? "none"}>
      {diagnosis && (
        <>
          <Outdated />
          <b>{visible(diagnosis.summary)}</b>{" "}
          {diagnosis.further.length > 0 && <span className="soft">{counted(diagnosis.further.length, "further cause")} </span>}
          <Link to="/runs/$name/fleet" params={{ name: run }} className="nowrap">
            View evidence
          </Link>
          <Text size="sm" className="soft" lineClamp={2} title={visible(diagnosis.change)}>
            {visible(diagnosis.change)}
          </Text>
        </>
      )}
    </section>
  );
}
