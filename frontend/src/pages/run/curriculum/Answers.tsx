import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { EvaluationRow } from "@/api/types";
import { ErrorState } from "@/components/ErrorState";
import { Table } from "@/components/Table";
import { counted, duration, number, percent, policyStep, shortId, visible } from "@/format";
import { evaluationQuery } from "@/pages/run/curriculum/api";
import { intervalText } from "@/pages/run/curriculum/curriculum";

function Outcome({ row }: { row: EvaluationRow }) {
  const { figures } = row;
  if (!figures)
    return (
      <p className="soft">{row.state === "lost" ? `Lost after ${row.attempts} attempts: ${visible(row.reason)}` : "No result yet."}</p>
    );
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

function Samples({ row }: { row: EvaluationRow }) {
  if (row.samples.length === 0) return <p className="faint">Its answers are no longer stored.</p>;
  return (
    <Table
      label={`Answers at version ${policyStep(row.policy_step)}`}
      role="group"
      columns={["Prompt", "Answer", { label: "Reward", className: "num" }, "Correct"]}
    >
      {row.samples.map((sample, at) => (
        // Rows have no key but their index.
        <tr key={at}>
          <td className="answer">{visible(sample.prompt)}</td>
          <td className="answer">{visible(sample.response)}</td>
          <td className="num">{number(sample.reward)}</td>
          <td>{sample.is_correct ? "yes" : "no"}</td>
        </tr>
      ))}
    </Table>
  );
}

type Props = { run: string; lesson: string; newest: EvaluationRow | undefined; chosen: string | undefined };

/** One evaluation's prompts and answers, by default the newest, with links to the training trajectories. */
export function Answers({ run, lesson, newest, chosen }: Props) {
  const picked = useQuery({ ...evaluationQuery(run, chosen ?? ""), enabled: chosen !== undefined });
  const row = chosen === undefined ? newest : picked.data;
  if (picked.error) return <ErrorState title="Evaluation unavailable" error={picked.error} />;
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
          <Samples row={row} />
        </>
      ) : (
        chosen === undefined && <p className="faint">No answers stored yet.</p>
      )}
      <p className="small">
        {at !== undefined && (
          <>
            <Link to="/runs/$name/trajectories" params={{ name: run }} search={{ lesson: [lesson], version_min: at, version_max: at }}>
              Trajectories of {lesson} sampled at version {policyStep(at)}
            </Link>
            {" · "}
          </>
        )}
        <Link to="/runs/$name/trajectories" params={{ name: run }} search={{ lesson: [lesson] }}>
          all of {lesson}
        </Link>
      </p>
    </section>
  );
}
