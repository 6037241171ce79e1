import { SegmentedControl, VisuallyHidden } from "@mantine/core";
import { useQueries, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Fragment, type ReactNode } from "react";
import { linesQuery } from "@/api/metrics";
import type { MetricLine, RunDetail } from "@/api/types";
import { lineStyleAt, Swatch } from "@/charts/lineStyles";
import { meanAndSpread } from "@/charts/lines";
import { RunChip } from "@/components/chips";
import { Panel } from "@/components/panels";
import { Table } from "@/components/Table";
import { count, counted, number, policyStep, visible } from "@/format";
import { valueText } from "@/forms/launch";
import { type RunKind, titleOf } from "@/runs/metricOrder";
import { OWN, panelOf, requestsOf } from "@/wall/panels";
import type { WallView } from "@/wall/Wall";
import css from "./compare.module.css";
import { configRows, equalStep, figuresOf, returnsOf, settingsOf } from "./comparing";

export type ComparedRun = {
  name: string;
  /** Undefined while loading, or if the run does not exist. */
  run?: RunDetail;
  /** Last heartbeat of the fleet. */
  observedAt?: string | null;
  fleetReason?: string;
  problem?: string;
  isPending: boolean;
};

type Rows = "differing" | "all";
type Props = {
  chosen: ComparedRun[];
  kinds: readonly RunKind[];
  /** Names of the shown metrics. */
  metrics: readonly string[];
  returnName: string | undefined;
  view: WallView;
  rows: Rows;
  onRows: (rows: Rows) => void;
};

const METRICS_AT_MOST = 8;
const [STALENESS, STALENESS_MOST] = [`${OWN}staleness/p50`, `${OWN}staleness/p95`];

/** A row of the table: one fact of each run. */
type Fact = {
  key: string;
  label: ReactNode;
  title?: string;
  cell: (run: ComparedRun & { run: RunDetail }) => ReactNode;
  /** A number, of which groups show mean and spread. */
  value?: (run: string) => number | null | undefined;
};

/** The newest values of the runs over all train steps, regardless of the visible range. */
function useNewest(runs: readonly string[], returnName: string | undefined) {
  const names = [...(returnName === undefined ? [] : [returnName]), STALENESS, STALENESS_MOST];
  const { data: lines = [] } = useQuery(linesQuery({ runs, names, axis: "step", points: 1 }));
  const { data: amounts = [] } = useQuery(linesQuery({ runs, names, axis: "amount", points: 1 }));
  const returns = lines.filter(({ name }) => name === returnName);
  const step = equalStep(returns);
  const span = { from: 0, to: step ?? 0 };
  const { data: equal = [] } = useQuery(linesQuery({ runs, names: step === null ? [] : names.slice(0, 1), axis: "step", points: 1, span }));
  const lastOf = (run: string, name: string) => figuresOf(lines.find((line) => line.run === run && line.name === name))?.last;
  return {
    step,
    returnsOf: (run: string) => returnsOf(run, returns, step === null ? [] : equal),
    stalenessOf: (run: string) => [lastOf(run, STALENESS), lastOf(run, STALENESS_MOST)] as const,
    amountOf: (run: string) =>
      amounts.reduce<number | null>(
        (most, line) => (line.run === run && line.x.length > 0 ? Math.max(most ?? 0, line.x.at(-1) ?? 0) : most),
        null,
      ),
  };
}

/** The lines of the shown metrics, from the requests of their panels, so that both show the same. */
function useMetricLines(metrics: readonly string[], view: WallView): MetricLine[] {
  const requests = requestsOf(metrics.map(panelOf), { runs: view.runs.length, alone: new Set() });
  const asked = [...new Set(metrics.map((name) => requests.get(name) ?? []))];
  return useQueries({ queries: asked.map((names) => linesQuery({ ...view, names })) }).flatMap(({ data }) => data ?? []);
}

function Mean({ runs, value, spread }: { runs: readonly string[]; value: NonNullable<Fact["value"]>; spread: WallView["spread"] }) {
  const values = runs.map(value).filter((one) => typeof one === "number");
  const found = meanAndSpread(values, spread);
  if (!found) return "–";
  const { mean, deviation, low, high } = found;
  return (
    <>
      {number(mean)}
      {deviation !== null && (
        <div className="faint tiny">{spread === "range" ? `${number(low)} … ${number(high)}` : `± ${number(deviation)}`}</div>
      )}
    </>
  );
}

/** One column per group and run: results, the shown metrics in the visible range, and the configuration. */
export function CompareTable({ chosen, kinds, metrics, returnName, view, rows, onRows }: Props) {
  const there = chosen.flatMap((one) => (one.run ? [{ ...one, run: one.run }] : []));
  const names = there.map(({ name }) => name);
  const further = metrics.filter((metric) => metric !== returnName);
  const shown = further.slice(0, METRICS_AT_MOST);
  const lines = useMetricLines(shown, view);
  const { step, ...newest } = useNewest(names, returnName);
  const returnTitle = returnName ? (titleOf(kinds, returnName) ?? visible(returnName)) : "Return";
  const ofReturn = (key: "last" | "best" | "atEqualStep", label: string, title: string): Fact => {
    const value = (run: string) => newest.returnsOf(run)?.[key];
    return { key, label, title, value, cell: ({ name }) => number(value(name) ?? null) };
  };
  const facts: Fact[] = [
    ofReturn("last", `${returnTitle}, last`, `${returnName ?? "No return"}, over the entire run`),
    ofReturn("best", `${returnTitle}, best`, "Greatest of the entire run"),
    ofReturn(
      "atEqualStep",
      `${returnTitle} ${step === null ? "at equal steps" : `at step ${number(step)}`}`,
      "At the greatest train step that every run has reached",
    ),
    {
      key: "state",
      label: "State",
      cell: ({ run, observedAt, fleetReason }) => <RunChip run={run} observedAt={observedAt} reason={fleetReason} />,
    },
    {
      key: "step",
      label: "Train step",
      cell: ({ run: { served_steps, num_steps } }) => (
        <>
          {number(served_steps)}
          {num_steps > 0 && <span className="faint"> / {count(num_steps)}</span>}
        </>
      ),
    },
    { key: "policy", label: "Policy", cell: ({ run }) => policyStep(run.policy_step) },
    {
      key: "staleness",
      label: "Staleness",
      title: "Of the newest batches, in versions behind: median and 95th percentile",
      value: (run) => newest.stalenessOf(run)[0],
      cell: ({ name }) => {
        const [median, most] = newest.stalenessOf(name);
        return typeof median === "number" ? `${number(median)} · p95 ${number(most ?? null)}` : "–";
      },
    },
    {
      key: "amount",
      label: "Data served",
      title: "Tokens served, or env steps of fleet runs, at the newest sample",
      value: newest.amountOf,
      cell: ({ name, run }) => {
        const amount = newest.amountOf(name);
        return amount === null ? "–" : `${count(amount)} ${run.kind === "fleet" ? "env steps" : "tokens"}`;
      },
    },
    ...shown.map((metric): Fact => {
      const figures = (run: string) => figuresOf(lines.find((line) => line.run === run && line.name === metric));
      return {
        key: metric,
        label: visible(metric),
        title: view.span ? "In the visible range: last, min … max" : "Last, min … max",
        value: (run) => figures(run)?.last,
        cell: ({ name }) => {
          const found = figures(name);
          if (!found) return "–";
          return (
            <>
              {number(found.last)}
              <div className="faint tiny">
                {number(found.least)} … {number(found.greatest)}
              </div>
            </>
          );
        },
      };
    }),
  ];
  const groups = view.groups ?? [];
  const width = 1 + groups.length + there.length;
  const wanted = (configs: Record<string, unknown>[]) => configRows(configs).filter(({ isSame }) => rows === "all" || !isSame);
  const settings = [
    { title: "Configuration as launched", rows: wanted(there.map(({ run }) => run.config)) },
    { title: "Current settings", rows: wanted(there.map(({ run }) => settingsOf(run))) },
  ];
  const found = settings.reduce((sum, section) => sum + section.rows.length, 0);
  const outside = there.filter(({ run }) => Object.keys(run.config).length === 0);
  return (
    <Panel
      title="Runs side by side"
      note={rows === "all" ? `${number(found)} settings` : counted(found, "setting differs", "settings differ")}
      aside={
        <SegmentedControl
          size="xs"
          aria-label="Settings"
          data={[
            { value: "differing", label: "Differences" },
            { value: "all", label: "All" },
          ]}
          value={rows}
          onChange={(value) => onRows(value as Rows)}
        />
      }
    >
      <Table
        label="Results and settings of the runs"
        role="region"
        className={css.scroll}
        tableClass={css.table}
        columns={[
          { label: <VisuallyHidden>Fact</VisuallyHidden>, className: css.fixed },
          ...groups.map(({ label, runs }) => ({
            label: (
              <span data-group={label}>
                {label} <span className="faint tiny">{number(runs.length)}×</span>
              </span>
            ),
            isNumber: true,
          })),
          ...there.map(({ name }) => ({
            label: (
              <>
                <Swatch look={lineStyleAt(view.places?.get(name) ?? 0)} />{" "}
                <Link to="/runs/$name" params={{ name }} data-strong>
                  {name}
                </Link>
              </>
            ),
            isNumber: true,
          })),
        ]}
      >
        {facts.map(({ key, label, title, cell, value }) => (
          <tr key={key} data-fact={key}>
            <th scope="row" className={css.fixed} title={title}>
              {label}
            </th>
            {groups.map((group) => (
              <td key={`group ${group.label}`} data-num data-group={group.label}>
                {value && <Mean runs={group.runs} value={value} spread={view.spread} />}
              </td>
            ))}
            {there.map((one) => (
              <td key={one.name} data-num data-run={one.name}>
                {cell(one)}
              </td>
            ))}
          </tr>
        ))}
        {settings.map((section) => (
          <Fragment key={section.title}>
            {section.rows.length > 0 && (
              <tr>
                <th scope="rowgroup" colSpan={width} className={css.section}>
                  {section.title}
                </th>
              </tr>
            )}
            {section.rows.map(({ path, values, isSame }) => (
              <tr key={path} data-path={path} data-same={isSame || undefined}>
                <th scope="row" className={`mono ${css.fixed}`}>
                  {visible(path)}
                </th>
                {groups.length > 0 && <td colSpan={groups.length} />}
                {values.map((value, i) => {
                  const isOther = valueText(value) !== valueText(values[0]);
                  return (
                    <td key={i} className={`anywhere ${isOther ? css.other : "soft"}`} data-num>
                      {isOther && <VisuallyHidden>differs: </VisuallyHidden>}
                      {visible(valueText(value))}
                    </td>
                  );
                })}
              </tr>
            ))}
          </Fragment>
        ))}
      </Table>
      {further.length > shown.length && (
        <p className="small soft">
          Showing the first {number(shown.length)} of {number(further.length)} metrics.
        </p>
      )}
      {there.length > 1 && found === 0 && <p className="small soft">The configurations are identical.</p>}
      {outside.length > 0 && (
        <p className="small soft">{outside.map(({ name }) => name).join(", ")}: an outside run without a known configuration.</p>
      )}
    </Panel>
  );
}
