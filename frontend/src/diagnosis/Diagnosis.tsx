import { Paper, Text } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { Diagnosis as RunDiagnosis } from "@/api/queue";
import { Age } from "@/components/inline";
import { Outdated } from "@/components/panels";
import { counted, visible } from "@/format";
import css from "./diagnosis.module.css";

const evidenceOf = (evidence: string[]) =>
  evidence.length > 0 && <p className="small soft anywhere">{evidence.map(visible).join(" · ")}</p>;

/** The most harmful cause in one sentence, its evidence and the recommended action, and further causes. */
export function Diagnosis({ diagnosis }: { diagnosis: RunDiagnosis }) {
  const { summary, since, evidence, change, further, stage } = diagnosis;
  return (
    <Paper className={css.diagnosis} component="section" aria-label="Diagnosis" data-stage={stage ?? "none"}>
      <h2>{visible(summary)}</h2>
      <Outdated />
      {since && (
        <p className="small soft">
          For <Age at={since} />
        </p>
      )}
      {evidenceOf(evidence)}
      {change && (
        <p className="small">
          <b>Recommended action</b> {visible(change)}
        </p>
      )}
      {further.length > 0 && (
        <ul className="small" aria-label="Further causes">
          {further.map((cause) => (
            <li key={cause.kind}>
              <b>{visible(cause.summary)}</b> {visible(cause.change)}
              {evidenceOf(cause.evidence)}
            </li>
          ))}
        </ul>
      )}
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
          <div className={css.said}>
            <Outdated />
            <Text component="b" truncate title={visible(diagnosis.summary)}>
              {visible(diagnosis.summary)}
            </Text>{" "}
            {diagnosis.further.length > 0 && <span className="soft">{counted(diagnosis.further.length, "further cause")} </span>}
            <Link to="/runs/$name/fleet" params={{ name: run }} className="nowrap">
              View evidence
            </Link>
          </div>
          {diagnosis.change && (
            <Text size="sm" className="soft" truncate title={visible(diagnosis.change)}>
              {visible(diagnosis.change)}
            </Text>
          )}
        </>
      )}
    </section>
  );
}
