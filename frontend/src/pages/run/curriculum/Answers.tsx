import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { EvaluationRow, MicroEvaluationRow } from "@/api/types";
import { ErrorState } from "@/components/ErrorState";
import { term } from "@/components/filter/suggest";
import { Table } from "@/components/Table";
import { counted, duration, number, percent, policyStep, shortId, visible } from "@/format";
import { evaluationQuery } from "@/pages/run/curriculum/api";
import { intervalText, unfinishedText } from "@/pages/run/curriculum/curriculum";
import css from "@/pages/run/curriculum/lessons.module.css";

function Outcome({ row }: { row: EvaluationRow }) {
  const { figures } = row;
  if (!figures) return <p className="soft">{unfinishedText(row)}</p>;
  const passes = Object.entries(row.pass_at).map(
    ([k, rate]) => `pass@${k} ${percent(rate.estimate)} (${percent(rate.low)} – ${percent(rate.high)})`,
  );
  return (
    <p className="small soft">
      {number(figures.problems)} problems, {counted(figures.generations, "answer")} each: success {intervalText(figures.success)};{" "}
      {passes.join(", ")}; reward {intervalText(figures.reward)}. Evaluated by{" "}
      <span title={visible(row.worker)}>{visible(shortId(row.worker))}</span> in {duration(figures.seconds)}.
    </p>
  );
}

function Samples({ samples, label }: { samples: EvaluationRow["samples"]; label: string }) {
  return (
    <Table label={label} role="group" columns={["Prompt", "Answer", { label: "Reward", className: "num" }, "Correct"]}>
      {samples.map((sample, at) => (
        // Rows have no key but their index.
        <tr key={at}>
          <td className={css.answer}>{visible(sample.prompt)}</td>
          <td className={css.answer}>{visible(sample.response)}</td>
          <td className="num">{number(sample.reward)}</td>
          <td>{sample.is_correct ? "yes" : "no"}</td>
        </tr>
      ))}
    </Table>
  );
}

/** The newest micro-evaluation of a lesson with its sample answers, and the error of the newest failed one. */
export function MicroAnswers({ rows }: { rows: MicroEvaluationRow[] }) {
  const shown = rows.find(({ answers }) => answers.length > 0);
  const failed = rows[0]?.error ? rows[0] : undefined;
  if (!shown && !failed) return null;
  return (
    <section aria-label="Answers of the newest micro-evaluation">
      <h3>Answers of the newest micro-evaluation</h3>
      {failed && (
        <p className="soft">
          Failed at version {policyStep(failed.policy_step)}: {visible(failed.error)}
        </p>
      )}
      {shown && (
        <>
          <p className="small soft">
            Version {policyStep(shown.policy_step)}: {shown.successes} of {counted(shown.samples, "answer")} correct, mean reward{" "}
            {number(shown.reward_mean)}. Evaluated by <span title={visible(shown.worker)}>{visible(shortId(shown.worker))}</span>.
          </p>
          <Samples samples={shown.answers} label={`Answers of the micro-evaluation at version ${policyStep(shown.policy_step)}`} />
        </>
      )}
    </section>
  );
}

type Props = { run: string; lesson: string; newest: EvaluationRow | undefined; chosen: string | undefined };

/** One evaluation's prompts and answers, by default the newest, with links to the training trajectories. */
export function Answers({ run, lesson, newest, chosen }: Props) {
  const picked = useQuery({ ...evaluationQuery(run, chosen ?? ""), enabled: chosen !== undefined });
  const row = chosen === undefined ? newest : picked.data;
  if (picked.error && !picked.data) return <ErrorState title="Evaluation unavailable" error={picked.error} />;
  const at = row && row.policy_step >= -1 ? row.policy_step : undefined;
  return (
    <section aria-label="Answers of one evaluation">
      <h3>
        {chosen === undefined
          ? "Answers of the newest evaluation"
          : `Answers of the evaluation at version ${row ? policyStep(row.policy_step) : "…"}`}
      </h3>
      {row ? (
        <>
          <Outcome row={row} />
          {row.samples.length > 0 ? (
            <Samples samples={row.samples} label={`Answers at version ${policyStep(row.policy_step)}`} />
          ) : (
            row.figures && <p className="faint">Its answers are no longer stored.</p>
          )}
        </>
      ) : (
        chosen === undefined && <p className="faint">No answers stored yet.</p>
      )}
      <p className="small">
        {at !== undefined && (
          <>
            <Link to="/runs/$name/trajectories" params={{ name: run }} search={{ q: `${term("env", lesson)} ${term("version", at)}` }}>
              Samples of {lesson} sampled at version {policyStep(at)}
            </Link>
            {" · "}
          </>
        )}
        <Link to="/runs/$name/trajectories" params={{ name: run }} search={{ q: term("env", lesson) }}>
          all of {lesson}
        </Link>
      </p>
    </section>
  );
}
