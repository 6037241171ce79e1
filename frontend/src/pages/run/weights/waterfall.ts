/** Convert weight reports to the distribution waterfall of one version. Pure. */

import type { PolicyVersionRow, WeightSyncRow } from "@/api/types";

type Stage = "announced" | "staged" | "active";
/** Workers report about once a second. */
export const REPORT_SECONDS = 1;

/** Seconds from publication to each stage; null if not reported. */
export type Bar = { worker: number } & Record<Stage, number | null>;
export type Waterfall = {
  bars: Bar[];
  seconds: number /** The slowest worker, if last by more than the report interval of about 1 s. */;
  slowest: Bar | null;
  /** The last worker. */
  last: Bar | null;
  missing: number;
};

function secondsAfter(at: string | null, published: number): number | null {
  return at === null ? null : Math.max(0, (Date.parse(at) - published) / 1000);
}

/** The distribution of a version to each worker; `seconds` is the extent of the x axis. */
export function waterfallOf(version: Pick<PolicyVersionRow, "epoch" | "step" | "published_at">, deliveries: WeightSyncRow[]): Waterfall {
  const published = Date.parse(version.published_at);
  const bars = deliveries
    .filter(({ epoch, step }) => epoch === version.epoch && step === version.step)
    .map((row) => ({
      worker: row.worker,
      announced: secondsAfter(row.announced_at, published),
      staged: secondsAfter(row.staged_at, published),
      active: secondsAfter(row.active_at, published),
    }));
  // Reports arrive about once a second: smaller differences are not ordered.
  const there = bars.filter(({ active }) => active !== null);
  const slowest = there.reduce<Bar | null>((worst, bar) => (worst === null || (bar.active ?? 0) > (worst.active ?? 0) ? bar : worst), null);
  const fastest = Math.min(...there.map(({ active }) => active ?? 0));
  const isApart = slowest !== null && (slowest.active ?? 0) - fastest >= REPORT_SECONDS;
  const times = bars.flatMap(({ announced, staged, active }) => [announced, staged, active]).filter((each) => each !== null);
  return { bars, seconds: Math.max(1, ...times), slowest: isApart ? slowest : null, last: slowest, missing: bars.length - there.length };
}
