/** Column definitions of the list of runs. */

import type { ReactNode } from "react";
import type { SortName } from "@/api/runLists";
import { Age } from "@/components/Age";
import { ProjectTag } from "@/components/ProjectTag";
import { RunChip } from "@/components/RunChip";
import { Spark } from "@/components/Spark";
import { count, number, policyStep, visible } from "@/format";
import { environmentOf } from "@/pages/runs/environment";
import { Queued } from "@/pages/runs/Queued";
import { RETURN_MEANING, type ShownRun } from "@/pages/runs/rows";
import css from "./runs.module.css";

export type Column = {
  id: string;
  label: string;
  title?: string;
  sort?: SortName;
  isNumber?: boolean;
  isShown: boolean;
  cell: (run: ShownRun) => ReactNode;
};

/** The age of a measurement; inactive runs are not measured again. */
const measured = (run: ShownRun) =>
  run.measured_at && (
    <div className="faint small">
      <Age at={run.measured_at} suffix=" ago" />
    </div>
  );
const known = (value: number | null | undefined) => value !== null && value !== undefined;

export const COLUMNS: Column[] = [
  {
    id: "state",
    label: "State",
    sort: "changed",
    isShown: true,
    cell: (run) => <RunChip run={run} observedAt={run.observed_at} reason={run.fleet_reason} />,
  },
  {
    id: "env",
    label: "Environment",
    isShown: true,
    cell: (run) => (
      <span className={`soft anywhere two-lines ${css.environment}`} title={visible(environmentOf(run))}>
        {visible(environmentOf(run))}
      </span>
    ),
  },
  {
    id: "tags",
    label: "Project, tags",
    isShown: true,
    cell: (run) => (
      <>
        {run.project && <ProjectTag name={run.project} />}
        {run.tags.map((tag) => (
          <span key={tag} className="tag">
            {tag}
          </span>
        ))}
      </>
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
    id: "policy",
    label: "Policy",
    title: "Newest published weights",
    sort: "policy",
    isNumber: true,
    isShown: false,
    cell: (run) => policyStep(run.policy_step),
  },
  {
    id: "return",
    label: "Return",
    title: "Mean return of the last 20 training episodes; for outside runs, mean score of the newest groups",
    sort: "return",
    isNumber: true,
    isShown: true,
    cell: (run) => <span title={RETURN_MEANING[run.return_source ?? ""]}>{number(run.return_mean)}</span>,
  },
  {
    id: "trend",
    label: "Trend",
    title: "Return, or mean score, over time",
    isShown: true,
    cell: (run) => <Spark values={run.returns ?? []} label={`Return of ${run.name} over time`} />,
  },
  {
    id: "queue",
    label: "Queue",
    title: "Sequences or fragments waiting for a trainer",
    isNumber: true,
    isShown: true,
    cell: (run) => <Queued run={run} isNarrow />,
  },
  {
    id: "rate",
    label: "Rate",
    title: "Groups, or fragments of a fleet run, received per second over the last minute; 0 if inactive",
    sort: "rate",
    isNumber: true,
    isShown: false,
    cell: (run) => (
      <>
        {number(run.accepted_per_second)}
        {known(run.accepted_per_second) && <span className="faint"> {run.kind === "fleet" ? "fragments/s" : "groups/s"}</span>}
        {known(run.accepted_per_second) && measured(run)}
      </>
    ),
  },
  {
    id: "staleness",
    label: "Staleness p50",
    title: "Median staleness of recently leased data, in policy versions",
    sort: "staleness",
    isNumber: true,
    isShown: false,
    cell: (run) => (
      <>
        {number(run.staleness_p50)}
        {known(run.staleness_p50) && <span className="faint"> {run.staleness_p50 === 1 ? "version" : "versions"}</span>}
        {known(run.staleness_p50) && measured(run)}
      </>
    ),
  },
  { id: "workers", label: "Workers", isNumber: true, isShown: false, cell: (run) => number(run.workers) },
  { id: "kind", label: "Kind", isShown: false, cell: (run) => run.kind },
  {
    id: "owner",
    label: "Owner",
    isShown: true,
    cell: (run) => (
      <span className="soft clipped" title={visible(run.created_by ?? "")}>
        {visible(run.created_by ?? "–")}
      </span>
    ),
  },
  {
    id: "age",
    label: "Age",
    sort: "created",
    isNumber: true,
    isShown: true,
    cell: (run) => (
      <span className="soft">
        <Age at={run.created_at} />
      </span>
    ),
  },
];

/** The columns named in the URL, or the default ones. */
export function columnsOf(cols: string | undefined): Column[] {
  if (cols === undefined) return COLUMNS.filter(({ isShown }) => isShown);
  const named = new Set(cols.split("."));
  return COLUMNS.filter(({ id }) => named.has(id));
}

/** The URL parameter for a set of columns; undefined for the default ones. */
export function wordOf(ids: string[]): string | undefined {
  const word = COLUMNS.filter(({ id }) => ids.includes(id))
    .map(({ id }) => id)
    .join(".");
  return word ===
    COLUMNS.filter(({ isShown }) => isShown)
      .map(({ id }) => id)
      .join(".")
    ? undefined
    : word;
}
