/** Combine the data of each environment of a run. Pure. */

import type { EnvironmentMixing, EnvironmentPushRate, EnvironmentRow, LedgerAnswer, RunDetail } from "@/api/types";
import { lineStyleAt } from "@/charts/lineStyles";
import type { Curve, PanelSpec } from "@/wall/panels";
import { presetOf } from "@/wall/presets";

type Refusals = EnvironmentRow["refused"][string];
type Ignored = EnvironmentRow["ignored_numbers"][string];

export type EnvironmentView = {
  key: string;
  name: string;
  environment: EnvironmentRow | undefined;
  mixing: EnvironmentMixing | undefined;
  /** Sequences or fragments, the unit of batches; as all counts of items below. */
  accepted: number;
  served: number;
  queued: number;
  /** Share of all queued items; null if the queue is empty. */
  queueShare: number | null;
  dropped: number;
  /** Share of the accepted items that was dropped; null before the first push. */
  dropShare: number | null;
  /** Groups or fragments pushed per second, over the last minute; null if none. */
  perSecond: number | null;
  /** Time of the newest push in that window. */
  pushedAt: string | null;
  /** Drop reasons, most frequent first. */
  reasons: [string, number][];
  /** Groups of pushes that were refused entirely. */
  refused: number;
  /** Rejected pushes by reason, latest first. */
  refusals: [string, Refusals][];
  /** Numbers of its groups that are in no series, by problem, latest first. */
  ignored: [string, Ignored][];
};

type Ledgers = LedgerAnswer["environments"];

const HELD: ReadonlySet<RunDetail["status"]> = new Set(["paused", "draining", "stopped", "failed", "completed"]);
/** Groups may arrive for this long after the environment was held back: they were under way. */
const UNDER_WAY_MS = 15_000;

export type Hold = "stopped" | "sending" | "unreached";

/**
 * Whether an environment of a run that holds its environments back has stopped, or still sends. One that has not requested its
 * status since then is unreached. Null for other runs and for disconnected environments.
 */
export function holdOf(view: EnvironmentView, run: Pick<RunDetail, "kind" | "status" | "status_changed_at">): Hold | null {
  const { environment } = view;
  if (run.kind !== "outside" || !HELD.has(run.status) || !environment?.connected) return null;
  const since = Date.parse(environment.held_at ?? run.status_changed_at);
  if (view.pushedAt && Date.parse(view.pushedAt) > since + UNDER_WAY_MS) return "sending";
  return environment.held_at ? "stopped" : "unreached";
}

const latestFirst = <T extends { newest_at: string }>(found: Record<string, T>): [string, T][] =>
  Object.entries(found).sort(([, a], [, b]) => Date.parse(b.newest_at) - Date.parse(a.newest_at));

/** The beginning of the names of an environment's series. */
export const seriesOf = (name: string): string => `env/${name.replaceAll(/[^\p{L}\p{N}_./ -]/gu, "_")}/`;

/** Number of distinguishable lines. */
const LINES_AT_MOST = 8;

/** The charts of an outside run with a line for each environment; of many, for the first. */
export function environmentPanels(environments: readonly EnvironmentRow[]): PanelSpec[] {
  const all = [...new Set(environments.map(({ desired_name }) => desired_name))];
  const names = all.slice(0, LINES_AT_MOST);
  const scope = names.length < all.length ? `, ${names.length} of ${all.length} environments` : "";
  const lines = (metric: string): Curve[] => names.map((name, i) => ({ name: seriesOf(name) + metric, label: name, ...lineStyleAt(i) }));
  const empty = "No groups measured yet.";
  return [
    presetOf({
      key: "scores",
      title: "Score",
      note: `mean of the groups of each environment${scope}`,
      hasEqualCurves: true,
      curves: lines("reward/mean"),
      empty,
    }),
    presetOf({
      key: "lengths",
      title: "Sequence length",
      note: `tokens, mean${scope}`,
      hasEqualCurves: true,
      floor: 0,
      curves: lines("length/mean"),
      empty,
    }),
    presetOf({
      key: "rates",
      title: "Groups",
      note: `per second${scope}`,
      hasEqualCurves: true,
      floor: 0,
      curves: lines("groups_per_second"),
      empty,
    }),
  ];
}

/** One view for each environment that registered or that fragments name. */
export function environmentViews(
  environments: EnvironmentRow[],
  mixing: EnvironmentMixing[],
  ledgers: Ledgers,
  arrivals: EnvironmentPushRate[],
): EnvironmentView[] {
  const queuedInAll = ledgers.reduce((sum, { sequences }) => sum + sequences.queued, 0);
  const view = (key: string, name: string, ledger: Ledgers[number] | undefined, environment?: EnvironmentRow): EnvironmentView => {
    const counts = ledger?.sequences;
    const reasons = Object.entries(counts?.dropped ?? {})
      .filter(([, items]) => items > 0)
      .sort(([, a], [, b]) => b - a);
    const dropped = reasons.reduce((sum, [, items]) => sum + items, 0);
    const refusals = latestFirst(environment?.refused ?? {});
    const accepted = counts?.accepted ?? 0;
    const pushed = arrivals.find(({ env_id, environment: named }) =>
      environment ? env_id === environment.env_id : ledger && env_id === ledger.env_id && named === ledger.environment,
    );
    return {
      key,
      name,
      environment,
      mixing: environment && mixing.find(({ env_id }) => env_id === environment.env_id),
      accepted,
      served: counts?.served ?? 0,
      queued: counts?.queued ?? 0,
      queueShare: queuedInAll ? (counts?.queued ?? 0) / queuedInAll : null,
      dropped,
      dropShare: accepted ? dropped / accepted : null,
      perSecond: pushed?.per_second ?? null,
      pushedAt: pushed?.newest_at ?? null,
      reasons,
      refused: refusals.reduce((sum, [, { pushes, groups }]) => sum + Math.max(groups ?? 0, pushes), 0),
      refusals,
      ignored: latestFirst(environment?.ignored_numbers ?? {}),
    };
  };
  const registered = environments.map((each) =>
    view(
      `id:${each.env_id}`,
      each.wandb_name,
      ledgers.find(({ kind, env_id }) => kind === "groups" && env_id === each.env_id),
      each,
    ),
  );
  const named = ledgers
    .filter(({ kind, env_id }) => kind === "fragments" || env_id === null)
    .filter(({ accepted }) => accepted > 0)
    .map((ledger) => view(`name:${ledger.environment}`, ledger.environment || "without environment", ledger));
  return [...registered, ...named];
}
