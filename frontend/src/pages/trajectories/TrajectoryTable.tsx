import { Link } from "@tanstack/react-router";
import { Age } from "@/components/Age";
import { Table } from "@/components/Table";
import { count, number, policyStep, shortId, visible } from "@/format";
import type { TrajectoryRow } from "@/pages/trajectories/api";
import css from "@/pages/trajectories/trajectories.module.css";

type LineProps = { row: TrajectoryRow; isOfRun: boolean; sort?: string; onEnvironment: (name: string) => void };

/** The slot and number of an episode, without the incarnation. */
function episodeName(id: string): string {
  const [slot = "", place = ""] = [id.slice(0, id.lastIndexOf("/")), id.slice(id.lastIndexOf("/") + 1)];
  return `Episode ${place} of ${shortId(slot)}`;
}

function Title({ row, sort }: Pick<LineProps, "row" | "sort">) {
  const params = { name: row.run };
  if (row.kind === "episode") {
    return (
      <Link to="/runs/$name/transcript" params={params} search={{ episode: row.id }} className="strong" title={visible(row.id)} data-open>
        {visible(episodeName(row.id))}
      </Link>
    );
  }
  return (
    <Link to="/runs/$name/groups/$group" params={{ ...params, group: row.id }} search={{ sort }} className="strong" data-open>
      {row.excerpt ? visible(row.excerpt) : `Group ${row.id}`}
    </Link>
  );
}

function Line({ row, isOfRun, sort, onEnvironment }: LineProps) {
  const from = row.environment || row.lesson;
  return (
    <tr className="opens" data-row data-trajectory={row.id}>
      <td className={css.what}>
        <Title row={row} sort={sort} />
        {row.answer && <div className={css.answer}>{visible(row.answer)}</div>}
        {!isOfRun && (
          <div className={css.under}>
            <Link to="/runs/$name" params={{ name: row.run }}>
              {row.run}
            </Link>
            {row.project && (
              <Link to="/projects/$project" params={{ project: row.project }} title="Project">
                {visible(row.project)}
              </Link>
            )}
          </div>
        )}
      </td>
      <td className="num">
        <b>{number(row.score)}</b>
        {row.score_min !== null && row.score_min !== row.score_max && (
          <div className="tiny faint">
            {number(row.score_min)} to {number(row.score_max)}
          </div>
        )}
      </td>
      <td className="anywhere">
        {from ? (
          <button
            type="button"
            className="link-button"
            title={`Show only ${from}`}
            onClick={() => onEnvironment(row.lesson || row.environment)}
          >
            {visible(from)}
          </button>
        ) : (
          "–"
        )}
        {row.lesson && row.environment && <div className="tiny faint">{visible(row.lesson)}</div>}
      </td>
      <td className="num wide-only">{row.length === null ? "–" : count(row.length)}</td>
      <td className="wide-only" title={visible(row.worker)}>
        <span className="two-lines">{visible(shortId(row.worker)) || "–"}</span>
      </td>
      <td className="num wide-only">{row.policy_step === null ? "–" : policyStep(row.policy_step)}</td>
      <td className="num soft">
        <Age at={row.at} suffix=" ago" />
      </td>
    </tr>
  );
}

type Props = Omit<LineProps, "row"> & { rows: TrajectoryRow[]; kind: "group" | "episode" };

/** Groups or episodes, one per row; each opens its transcript. */
export function TrajectoryTable({ rows, kind, ...shared }: Props) {
  const isOfEpisodes = kind === "episode";
  return (
    <Table
      label={isOfEpisodes ? "Episodes" : "Groups"}
      columns={[
        isOfEpisodes ? "Episode" : "Prompt",
        isOfEpisodes
          ? { label: "Return", className: "num", title: "Sum of the rewards" }
          : { label: "Score", className: "num", title: "Mean over the sequences of the group, with the lowest and the highest" },
        "Environment",
        {
          label: isOfEpisodes ? "Steps" : "Tokens",
          className: "num wide-only",
          title: isOfEpisodes ? "Env steps" : "Tokens of the longest sequence",
        },
        { label: "Worker", className: "wide-only" },
        { label: "Policy", className: "num wide-only", title: "Version of the policy that acted" },
        { label: isOfEpisodes ? "Ended" : "Received", className: "num" },
      ]}
    >
      {rows.map((row) => (
        <Line key={`${row.run} ${row.id}`} row={row} {...shared} />
      ))}
    </Table>
  );
}
