import { useQueries, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { newestBatchQuery } from "@/api/compare";
import { linesQuery } from "@/api/metrics";
import type { MetricLine } from "@/api/types";
import { lineStyleAt } from "@/charts/lineStyles";
import { Swatch } from "@/charts/Swatch";
import { Panel } from "@/components/Panel";
import { RunChip } from "@/components/RunChip";
import { Table } from "@/components/Table";
import { count, number, policyStep, visible } from "@/format";
import { type RunKind, titleOf } from "@/runs/metricOrder";
import type { WallView } from "@/wall/Panel";
import { panelOf, requestsOf } from "@/wall/panels";
import css from "./compare.module.css";
import { figuresOf, stalenessOf } from "./comparing";
import { GroupRows } from "./GroupRows";
import { equalStep, type Returns, returnsOf } from "./returns";
import type { ComparedRun } from "./useComparedRuns";

type Props = {
  chosen: ComparedRun[];
  kinds: readonly RunKind[];
  /** Names of the metrics of the columns. */
  metrics: readonly string[];
  returnName: string | undefined;
  view: WallView;
};

/** A request returns at most 100 lines: five metrics for twenty runs. */
const NAMES_FOR_AMOUNTS = 5;
const COLUMNS_AT_MOST = 8;
/** State, train step, policy, staleness and data served. */
const OTHER_COLUMNS = 5;

function lastByRun(lines: readonly MetricLine[]): Map<string, number> {
  return new Map(
    lines.flatMap((line): [string, number][] => {
      const last = figuresOf(line)?.last;
      return typeof last === "number" ? [[line.run, last]] : [];
    }),
  );
}

function Figures({ line }: { line: MetricLine | undefined }) {
  const figures = figuresOf(line);
  if (!figures) return <td className="num faint">–</td>;
  return (
    <td className="num">
      {number(figures.last)}
      <div className="faint tiny">
        {number(figures.least)} … {number(figures.greatest)}
      </div>
    </td>
  );
}

/** The amount of data that each run had served at its newest sample. */
function useAmounts(view: WallView, metrics: readonly string[]): Map<string, number> {
  const names = metrics.slice(0, NAMES_FOR_AMOUNTS);
  const { data = [] } = useQuery(linesQuery({ runs: view.runs, names, axis: "amount", points: 1 }));
  const amounts = new Map<string, number>();
  for (const { run, x } of data) amounts.set(run, Math.max(amounts.get(run) ?? 0, x.at(-1) ?? 0));
  return amounts;
}

type Compared = { step: number | null; of: (run: string) => Returns | null };

/** The returns of the runs over all their train steps, regardless of the visible range. */
function useReturns(view: WallView, metric: string | undefined): Compared {
  const asked = { runs: view.runs, names: metric === undefined ? [] : [metric], axis: "step" as const, points: 1 };
  const { data: lines = [] } = useQuery(linesQuery(asked));
  const step = equalStep(lines);
  const until = linesQuery({ ...asked, names: step === null ? [] : asked.names, span: { from: 0, to: step ?? 0 } });
  const { data: equal = [] } = useQuery(until);
  return { step, of: (run) => returnsOf(run, lines, step === null ? [] : equal) };
}

function ReturnCells({ returns }: { returns: Returns | null }) {
  return (
    <>
      <td className="num" data-return="last">
        <b>{number(returns?.last ?? null)}</b>
      </td>
      <td className="num" data-return="best">
        {number(returns?.best ?? null)}
      </td>
      <td className="num" data-return="equal">
        {number(returns?.atEqualStep ?? null)}
      </td>
    </>
  );
}

/** One row per run: its return, its state, its progress, and its metrics in the visible range. */
export function Summary({ chosen, kinds, metrics, returnName, view }: Props) {
  const there = chosen.filter(({ run }) => run);
  const further = metrics.filter((metric) => metric !== returnName);
  const columns = further.slice(0, COLUMNS_AT_MOST);
  // The requests of the panels, so that both show the same.
  const requests = requestsOf(metrics.map(panelOf), { runs: view.runs.length, alone: new Set() });
  const asked = [...new Set(columns.map((name) => requests.get(name) ?? []))];
  const found = useQueries({ queries: asked.map((names) => linesQuery({ ...view, names })) });
  const lines = found.flatMap(({ data }) => data ?? []);
  const batches = useQueries({ queries: there.map(({ name }) => newestBatchQuery(name)) });
  const amounts = useAmounts(view, metrics);
  const returns = useReturns(view, returnName);
  const returnTitle = returnName ? (titleOf(kinds, returnName) ?? visible(returnName)) : "Return";
  const note = view.span ? "metrics in the visible range" : "metrics: last, min … max";
  return (
    <Panel title="Summary" note={note}>
      <Table
        label="Summary of the runs"
        role="region"
        tableClass={css.table}
        columns={[
          { label: "Run", className: css.fixed },
          { label: `${returnTitle}, last`, className: "num", title: `${returnName ?? "No return"}, over the entire run` },
          { label: "best", className: "num", title: `Greatest ${returnName ?? "return"} of the entire run` },
          {
            label: returns.step === null ? "at equal steps" : `at step ${number(returns.step)}`,
            className: "num",
            title: "At the greatest train step that every run has reached",
          },
          "State",
          { label: "Train step", className: "num" },
          { label: "Policy", className: "num" },
          { label: "Staleness", className: "num", title: "In the newest batch: mean and maximum versions behind" },
          { label: "Data served", className: "num", title: "Tokens served, or env steps of fleet runs, at the newest sample" },
          ...columns.map((name) => ({ label: visible(name), className: "num" })),
        ]}
      >
        {view.groups && (
          <GroupRows
            groups={view.groups}
            spread={view.spread ?? "deviation"}
            returnsOf={returns.of}
            metrics={columns.map((name) => ({ name, last: lastByRun(lines.filter((line) => line.name === name)) }))}
            others={OTHER_COLUMNS}
          />
        )}
        {there.map(({ name, run, observedAt, fleetReason }, i) => {
          const staleness = stalenessOf(batches[i]?.data?.staleness ?? {});
          return (
            run && (
              <tr key={name} data-run={name}>
                <th scope="row" className={css.fixed}>
                  <Swatch look={lineStyleAt(view.places?.get(name) ?? 0)} />{" "}
                  <Link to="/runs/$name" params={{ name }} className="strong">
                    {name}
                  </Link>
                </th>
                <ReturnCells returns={returns.of(name)} />
                <td>
                  <RunChip run={run} observedAt={observedAt} reason={fleetReason} />
                </td>
                <td className="num">
                  {number(run.served_steps)}
                  {run.num_steps > 0 && <span className="faint"> / {count(run.num_steps)}</span>}
                </td>
                <td className="num">{policyStep(run.policy_step)}</td>
                <td className="num">
                  {staleness ? (
                    <>
                      {number(staleness.mean)} <span className="faint">· max {number(staleness.most)}</span>
                    </>
                  ) : (
                    "–"
                  )}
                </td>
                <td className="num">
                  {amounts.has(name) ? count(amounts.get(name)) : "–"}
                  {amounts.has(name) && <span className="faint tiny"> {run.kind === "fleet" ? "env steps" : "tokens"}</span>}
                </td>
                {columns.map((metric) => (
                  <Figures key={metric} line={lines.find((line) => line.run === name && line.name === metric)} />
                ))}
              </tr>
            )
          );
        })}
      </Table>
      {further.length > columns.length && (
        <p className="small soft">
          Showing the first {number(columns.length)} of {number(further.length)} metrics.
        </p>
      )}
    </Panel>
  );
}
