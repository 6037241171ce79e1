import { meanAndSpread, type Spread } from "@/charts/spread";
import { number } from "@/format";
import type { Group } from "@/wall/drawing";
import css from "./compare.module.css";
import type { Returns } from "./returns";

type Props = {
  groups: readonly Group[];
  spread: Spread;
  returnsOf: (run: string) => Returns | null;
  /** The last values of each metric column, by run. */
  metrics: readonly { name: string; last: ReadonlyMap<string, number> }[];
  /** Number of columns that have no mean, between the returns and the metrics. */
  others: number;
};

function Mean({ values, spread, kind }: { values: (number | null | undefined)[]; spread: Spread; kind?: string }) {
  const found = meanAndSpread(
    values.filter((value) => typeof value === "number"),
    spread,
  );
  return (
    <td className="num" data-mean={kind}>
      {found ? number(found.mean) : "–"}
      {found && found.deviation !== null && (
        <div className="faint tiny">
          {spread === "range" ? `${number(found.low)} … ${number(found.high)}` : `± ${number(found.deviation)}`}
        </div>
      )}
    </td>
  );
}

/** One row per group: mean and spread of what the rows of its runs show. */
export function GroupRows({ groups, spread, returnsOf, metrics, others }: Props) {
  return groups.map(({ label, runs }) => (
    <tr key={label} data-group={label}>
      <th scope="row" className={css.fixed}>
        {label} <span className="faint tiny">{number(runs.length)}×</span>
      </th>
      <Mean values={runs.map((run) => returnsOf(run)?.last)} spread={spread} kind="last" />
      <Mean values={runs.map((run) => returnsOf(run)?.best)} spread={spread} kind="best" />
      <Mean values={runs.map((run) => returnsOf(run)?.atEqualStep)} spread={spread} kind="equal" />
      <td colSpan={others} />
      {metrics.map(({ name, last }) => (
        <Mean key={name} values={runs.map((run) => last.get(run))} spread={spread} kind={name} />
      ))}
    </tr>
  ));
}
