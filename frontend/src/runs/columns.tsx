/** Column definitions of the list of runs. */

import { Badge } from "@mantine/core";
import type { ReactNode } from "react";
import { isNamed, type NamedColumn, type SortName } from "@/api/runs";
import { ProjectTag, RunChip } from "@/components/chips";
import type { Column } from "@/components/DataTable";
import { Age, Spark } from "@/components/inline";
import { count, moment, number, visible } from "@/format";
import { unitOf } from "@/runs/queued";
import { RETURN_MEANING, type ShownRun } from "@/runs/rows";
import css from "@/runs/runs.module.css";

export type RunColumn = Column<ShownRun> & {
  id: string;
  label: string;
  sort?: SortName;
  isShown: boolean;
  cell: (run: ShownRun) => ReactNode;
  /** Unit of a run's number, in the head if all runs have the same. */
  unit?: (run: ShownRun) => string;
  /** The number whose mean is shown of a group. */
  measure?: (run: ShownRun) => unknown;
};

/** On small screens the state is below the name, beside only two numbers. */
const NUMBER = "num mantine-visible-from-sm";

/** `CartPole-v1`; lessons of a language run; registered environments of an outside run, or its kind. */
function environmentOf({ environment, kind }: ShownRun): string {
  if (environment) return visible(environment.replace(/^gymnasium:/, ""));
  return kind === "outside" ? "outside" : "–";
}

/** The time of a measurement; inactive runs are not measured again. */
const measured = (run: ShownRun) => (run.measured_at ? `Measured at ${moment(run.measured_at)}` : undefined);

export const COLUMNS: RunColumn[] = [
  {
    id: "state",
    label: "State",
    sort: "changed",
    className: "mantine-visible-from-sm",
    isShown: true,
    cell: (run) => <RunChip run={run} observedAt={run.observed_at} reason={run.fleet_reason} />,
  },
  {
    id: "env",
    label: "Environment",
    className: "mantine-visible-from-sm",
    isShown: true,
    cell: (run) => (
      <span className={`soft ${css.clipped}`} title={environmentOf(run)}>
        {environmentOf(run)}
      </span>
    ),
  },
  {
    id: "tags",
    label: "Project, tags",
    className: "mantine-visible-from-sm",
    isShown: true,
    cell: (run) => (
      <div className={css.tags} title={visible(run.tags.join(", "))}>
        {run.project && <ProjectTag name={run.project} />}
        {run.tags.map((tag) => (
          <Badge key={tag}>{tag}</Badge>
        ))}
      </div>
    ),
  },
  {
    id: "step",
    label: "Train step",
    title: "Batches served, of the planned number",
    sort: "step",
    isNumber: true,
    isShown: true,
    cell: (run) => (
      <>
        {number(run.served_steps)}
        {run.num_steps > 0 && <span className="faint"> / {count(run.num_steps)}</span>}
      </>
    ),
  },
  {
    id: "return",
    label: "Return",
    title: "Mean return of the last 20 training episodes; for outside runs, mean score of the newest groups",
    sort: "return",
    isNumber: true,
    isShown: true,
    measure: (run) => run.return_mean,
    cell: (run) => <span title={RETURN_MEANING[run.return_source ?? ""]}>{number(run.return_mean)}</span>,
  },
  {
    id: "trend",
    label: "Trend",
    title: "Return, or mean score, over time",
    className: "mantine-visible-from-sm",
    isShown: true,
    cell: (run) => <Spark values={run.returns ?? []} label={`Return of ${run.name} over time`} />,
  },
  {
    id: "queue",
    label: "Queue",
    title: "Sequences or fragments waiting for a trainer",
    className: NUMBER,
    isShown: true,
    unit: ({ kind }) => unitOf(kind),
    measure: (run) => run.queued,
    cell: (run) => count(run.queued),
  },
  {
    id: "rate",
    label: "Rate",
    title: "Groups, or fragments of a fleet run, received per second over the last minute; 0 if inactive",
    sort: "rate",
    className: NUMBER,
    isShown: false,
    unit: ({ kind }) => (kind === "fleet" ? "fragments/s" : "groups/s"),
    measure: (run) => run.accepted_per_second,
    cell: (run) => <span title={measured(run)}>{number(run.accepted_per_second)}</span>,
  },
  {
    id: "staleness",
    label: "Staleness p50",
    title: "Median staleness of recently leased data, in policy versions",
    sort: "staleness",
    className: NUMBER,
    isShown: false,
    unit: () => "versions",
    measure: (run) => run.staleness_p50,
    cell: (run) => <span title={measured(run)}>{number(run.staleness_p50)}</span>,
  },
  { id: "kind", label: "Kind", className: "mantine-visible-from-sm", isShown: false, cell: (run) => run.kind },
  {
    id: "owner",
    label: "Owner",
    className: "mantine-visible-from-sm",
    isShown: true,
    cell: (run) => (
      <span className={`soft ${css.clipped}`} title={visible(run.created_by ?? "")}>
        {visible(run.created_by ?? "–")}
      </span>
    ),
  },
  {
    id: "age",
    label: "Age",
    sort: "created",
    className: NUMBER,
    isShown: true,
    cell: (run) => (
      <span className="soft">
        <Age at={run.created_at} />
      </span>
    ),
  },
];

/** The column of a configuration value or metric. */
function namedColumn(id: NamedColumn): RunColumn {
  const value = (run: ShownRun) => run.columns?.[id];
  return {
    id,
    label: visible(id.slice(id.indexOf(".") + 1)),
    title: visible(id.startsWith("metric.") ? `Last value of the metric ${id.slice(7)}` : `Configuration value ${id.slice(7)}`),
    sort: id,
    className: NUMBER,
    isShown: false,
    measure: id.startsWith("metric.") ? value : undefined,
    cell: (run) => {
      const own = value(run);
      if (typeof own === "number") return <span title={String(own)}>{number(own)}</span>;
      const text = visible(String(own ?? "–"));
      return (
        <span className={css.clipped} title={text}>
          {text}
        </span>
      );
    },
  };
}

/** Most columns of configuration values and metrics, with the one that runs are grouped by. */
export const NAMED_AT_MOST = 20;

/** The columns named in the URL, or the default ones. */
export function columnsOf(cols: string | undefined): RunColumn[] {
  if (cols === undefined) return COLUMNS.filter(({ isShown }) => isShown);
  const ids = new Set(cols.split(","));
  const named = [...ids].filter(isNamed).slice(0, NAMED_AT_MOST - 1);
  return [...COLUMNS.filter(({ id }) => ids.has(id)), ...named.map(namedColumn)];
}

/** The URL parameter for a set of columns; undefined for the default ones. */
export function wordOf(ids: string[]): string | undefined {
  const word = [...COLUMNS.map(({ id }) => id).filter((id) => ids.includes(id)), ...ids.filter(isNamed)].join(",");
  const usual = COLUMNS.filter(({ isShown }) => isShown).map(({ id }) => id);
  return word === usual.join(",") ? undefined : word;
}
