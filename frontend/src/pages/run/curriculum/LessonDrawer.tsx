import { useQuery } from "@tanstack/react-query";
import type { EvaluationRow, LessonChange, LessonRow, MicroEvaluationRow } from "@/api/types";
import { Chart } from "@/charts/Chart";
import type { Line } from "@/charts/model";
import { Age } from "@/components/Age";
import { SideSheet } from "@/components/Dialog";
import { ErrorState } from "@/components/ErrorState";
import { duration, number, percent, policyStep, visible } from "@/format";
import { Answers, MicroAnswers } from "@/pages/run/curriculum/Answers";
import { evaluationsQuery, historyQuery, microEvaluationsQuery } from "@/pages/run/curriculum/api";
import { evaluationColumns, intervalText, moveOf, passText, withMicro } from "@/pages/run/curriculum/curriculum";
import css from "@/pages/run/curriculum/lessons.module.css";
import { ManualControl } from "@/pages/run/curriculum/ManualControl";
import { nameOf } from "@/pages/run/curriculum/steering";

function Facts({ lesson }: { lesson: LessonRow }) {
  const figures = lesson.evaluation?.figures;
  const facts: [string, string][] = [
    ["Goal", percent(lesson.stop_success)],
    ["Training success", percent(lesson.success)],
    ["Problems sampled", number(lesson.examples)],
    ["Samples", number(lesson.samples)],
    ["Zero-variance groups", percent(lesson.zero_variance_share)],
    ["Truncated answers", percent(lesson.truncated_share)],
    ["Duplicate answers", percent(lesson.duplicate_share)],
    ["Mean answer tokens", number(lesson.tokens_mean)],
    ...(figures
      ? ([
          ["Evaluation success", intervalText(figures.success)],
          [`Over ${figures.problems} problems`, passText(figures.pass_at)],
          ["Evaluation reward", intervalText(figures.reward)],
          ["Evaluation time", duration(figures.seconds)],
        ] as [string, string][])
      : []),
  ];
  return (
    <dl className={css.lessonFacts}>
      {facts.map(([term, value]) => (
        <div key={term}>
          <dt>{term}</dt>
          <dd className="num">{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function Curve({ name, rows, micro }: { name: string; rows: EvaluationRow[]; micro: MicroEvaluationRow[] }) {
  const columns = withMicro(evaluationColumns(rows), micro);
  const small: Line[] = columns.micro ? [{ label: "micro-evaluation", values: columns.micro, role: 3, dashed: true }] : [];
  return (
    <Chart
      name={`Evaluation success of ${name}`}
      x={columns.x}
      isTime={false}
      xLabel={columns.isRound ? "round" : "version"}
      lines={[{ label: "full evaluation", values: columns.success, role: 1 }, ...small]}
      band={{ low: columns.low, high: columns.high, label: "interval" }}
      height={190}
      empty="Not evaluated yet"
    />
  );
}

function History({ rows }: { rows: LessonChange[] }) {
  if (rows.length === 0) return <p className="faint">No transitions yet.</p>;
  return (
    <ol className={css.lessonHistory} aria-label="History, newest first">
      {rows.map((row) => (
        <li key={row.id}>
          <b>{row.source === row.target ? moveOf(row) : `${row.source} → ${row.target}`}</b>{" "}
          <span className="small soft">
            {row.actor !== "curriculum" && `by ${nameOf(row.actor)} `}at version {policyStep(row.policy_step)},{" "}
            <Age at={row.at} suffix=" ago" />
          </span>
          <div className="small">{visible(row.reason)}</div>
        </li>
      ))}
    </ol>
  );
}

type Props = {
  run: string;
  lesson: LessonRow;
  /** The selected evaluation; defaults to the newest. */
  evaluation?: string | undefined;
  revision: number;
  onClose: () => void;
};

/** Details of one lesson: evaluations over versions, answers and history. */
export default function LessonDrawer({ run, lesson, evaluation, revision, onClose }: Props) {
  const evaluations = useQuery(evaluationsQuery(run, lesson.name, revision));
  const history = useQuery(historyQuery(run, lesson.name, revision));
  const micro = useQuery(microEvaluationsQuery(run, lesson.name, revision));
  const error = evaluations.error ?? history.error ?? micro.error;
  return (
    <SideSheet onClose={onClose} size="xl" title={`Lesson ${lesson.name}`}>
      <p className="soft">{visible(lesson.reason)}</p>
      <ManualControl lesson={lesson} />
      {error ? (
        <ErrorState title="Lesson unavailable" error={error} />
      ) : (
        <>
          <Curve name={lesson.name} rows={evaluations.data ?? []} micro={micro.data ?? []} />
          <p className="small faint">Only full evaluations affect the curriculum; micro-evaluations are informational.</p>
          <Facts lesson={lesson} />
          <Answers
            run={run}
            lesson={lesson.name}
            newest={evaluations.data?.find(({ samples }) => samples.length > 0)}
            chosen={evaluation}
          />
          <MicroAnswers rows={micro.data ?? []} />
          <h3>History</h3>
          <History rows={history.data ?? []} />
        </>
      )}
    </SideSheet>
  );
}
