import { Group, SegmentedControl, VisuallyHidden } from "@mantine/core";
import { useQueries, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { linesQuery } from "@/api/metrics";
import type { MetricLine, RunDetail } from "@/api/types";
import { lineStyleAt, Swatch } from "@/charts/lineStyles";
import { meanAndSpread } from "@/charts/lines";
import { RunChip } from "@/components/chips";
import { type Column, DataTable } from "@/components/DataTable";
import { Panel } from "@/components/panels";
import { count, counted, number, policyStep, visible } from "@/format";
import { valueText } from "@/forms/launch";
import { type RunKind, titleOf } from "@/runs/metricOrder";
import { panelOf, requestsOf } from "@/wall/panels";
import type { WallView } from "@/wall/Wall";
import css from "./compare.module.css";
import { configRows, figuresOf, settingsOf } from "./comparing";

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
const ROWS = [
  { value: "differing", label: "Differences" },
  { value: "all", label: "All" },
];

/** A row of the table: one fact of each run. */
type Fact = {
  key: string;
  label: ReactNode;
  title?: string;
  /** Whether it is a value of the configuration. */
  isSetting?: boolean;
  cell: (run: ComparedRun & { run: RunDetail }, index: number) => ReactNode;
  /** A number, of which groups show mean and spread. */
  value?: (run: string) => number | null | undefined;
};

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
  const further = metrics.filter((metric) => metric !== returnName);
  const shown = further.slice(0, METRICS_AT_MOST);
  const lines = useMetricLines(shown, view);
  // The return of the entire run, regardless of the visible range.
  const ofReturn = { runs: there.map(({ name }) => name), names: returnName ? [returnName] : [], axis: "step", points: 1 } as const;
  const { data: returns = [] } = useQuery(linesQuery(ofReturn));
  const returnTitle = returnName ? (titleOf(kinds, returnName) ?? visible(returnName)) : "Return";
  const returnFact = (key: "last" | "greatest", label: string): Fact => {
    const value = (run: string) => figuresOf(returns.find((line) => line.run === run))?.[key];
    return { key, label, title: "Over the entire run", value, cell: ({ name }) => number(value(name)) };
  };
  const metricFact = (metric: string): Fact => {
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
  };
  const settings = configRows(there.map(({ run }) => ({ ...run.config, current: settingsOf(run) })))
    .filter(({ isSame }) => rows === "all" || !isSame)
    .map(({ path, values }): Fact => {
      const texts = values.map(valueText);
      const cell = (_: ComparedRun, i: number) =>
        texts[i] === texts[0] ? (
          <span className="soft">{visible(texts[i] ?? "")}</span>
        ) : (
          <b className="anywhere">
            <VisuallyHidden>differs: </VisuallyHidden>
            {visible(texts[i] ?? "")}
          </b>
        );
      return { key: path, label: visible(path), isSetting: true, cell };
    });
  const facts: Fact[] = [
    returnFact("last", `${returnTitle}, last`),
    returnFact("greatest", `${returnTitle}, best`),
    {
      key: "state",
      label: "State",
      cell: ({ run, observedAt, fleetReason }) => <RunChip run={run} observedAt={observedAt} reason={fleetReason} />,
    },
    {
      key: "step",
      label: "Train step",
      cell: ({ run: { served_steps, num_steps } }) => number(served_steps) + (num_steps > 0 ? ` / ${count(num_steps)}` : ""),
    },
    { key: "policy", label: "Policy", cell: ({ run }) => policyStep(run.policy_step) },
    ...shown.map(metricFact),
    ...settings,
  ];
  const columns: Column<Fact>[] = [
    {
      id: "fact",
      label: <VisuallyHidden>Fact</VisuallyHidden>,
      className: css.fixed,
      cell: ({ label, title, isSetting }) => (
        <span className={isSetting ? "mono" : undefined} title={title}>
          {label}
        </span>
      ),
    },
    ...(view.groups ?? []).map(
      ({ label, runs }): Column<Fact> => ({
        id: `group ${label}`,
        label: `${label} ${number(runs.length)}×`,
        isNumber: true,
        cell: ({ value }) => <div data-group={label}>{value && <Mean runs={runs} value={value} spread={view.spread} />}</div>,
      }),
    ),
    ...there.map(
      (one, i): Column<Fact> => ({
        id: one.name,
        isNumber: true,
        label: (
          <Group gap={6} justify="flex-end" wrap="nowrap">
            <Swatch look={lineStyleAt(view.places?.get(one.name) ?? 0)} />
            <Link to="/runs/$name" params={{ name: one.name }} data-strong>
              {one.name}
            </Link>
          </Group>
        ),
        cell: ({ cell }) => <div data-run={one.name}>{cell(one, i)}</div>,
      }),
    ),
  ];
  const outside = there.filter(({ run }) => Object.keys(run.config).length === 0);
  return (
    <Panel
      title="Runs side by side"
      note={rows === "all" ? counted(settings.length, "setting") : counted(settings.length, "setting differs", "settings differ")}
      aside={<SegmentedControl size="xs" aria-label="Settings" data={ROWS} value={rows} onChange={(value) => onRows(value as Rows)} />}
    >
      <DataTable
        label="Results and settings of the runs"
        role="group"
        className={css.table}
        rows={facts}
        columns={columns}
        keyOf={({ key }) => key}
        attributes={({ key, isSetting }) => (isSetting ? { "data-path": key } : { "data-fact": key })}
      />
      {further.length > shown.length && (
        <p className="small soft">
          Showing the first {number(shown.length)} of {number(further.length)} metrics.
        </p>
      )}
      {outside.length > 0 && (
        <p className="small soft">{outside.map(({ name }) => name).join(", ")}: an outside run without a known configuration.</p>
      )}
    </Panel>
  );
}
