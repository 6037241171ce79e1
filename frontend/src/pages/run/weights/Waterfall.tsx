import type { PolicyVersionRow, WeightSyncRow, WorkerRow } from "@/api/types";
import { type Lane, Lanes } from "@/components/Lanes";
import { Panel } from "@/components/Panel";
import { duration, number, policyStep } from "@/format";
import { type Bar, REPORT_SECONDS, waterfallOf } from "@/pages/run/weights/waterfall";

const STAGES = [
  { stage: "announced", words: "announced", fill: "var(--chart-8)" },
  { stage: "staged", words: "received", fill: "var(--chart-2)" },
  { stage: "active", words: "active", fill: "var(--chart-3)" },
] as const;

/** The time of one worker from publication to each stage. */
function laneOf(bar: Bar, seconds: number, isSlowest: boolean): Lane {
  let from = 0;
  const segments = STAGES.flatMap(({ stage, fill }) => {
    const to = bar[stage];
    if (to === null) return [];
    const segment = { key: stage, from: Math.min(from, to) / seconds, width: Math.max(0, to - from) / seconds, fill };
    from = Math.max(from, to);
    return [segment];
  });
  return {
    key: bar.worker,
    label: `worker ${bar.worker}`,
    segments,
    words: STAGES.map(({ stage, words }) => `${words} ${bar[stage] === null ? "never" : `after ${duration(bar[stage])}`}`).join(", "),
    aside: (
      <span className={isSlowest ? "held" : undefined}>
        {bar.active === null ? "not yet" : duration(bar.active)}
        {isSlowest && " ▲"}
      </span>
    ),
    attributes: { "data-worker": bar.worker },
  };
}

type Props = {
  version: PolicyVersionRow;
  deliveries: WeightSyncRow[];
  workers: WorkerRow[];
  /** The pinned version that prevents the distribution of this one. */
  keptInstead: number | null;
};

/** The distribution of one version, from publication to each worker. */
export function Waterfall({ version, deliveries, workers, keptInstead }: Props) {
  const { bars, seconds, slowest, last, missing } = waterfallOf(version, deliveries);
  const title = `Distribution of version ${policyStep(version.step)}`;
  if (bars.length === 0) {
    return (
      <Panel title={title} className="span-6">
        <p>
          {keptInstead === null
            ? "No worker has reported this version."
            : `Not distributed: workers are pinned to version ${policyStep(keptInstead)}.`}
        </p>
        <p className="soft">
          {keptInstead !== null
            ? "Workers load it once they follow the newest version again, unless a newer one is published first."
            : workers.length === 0
              ? "Outside runs have no workers here; a fleet reports when each worker has announced, received and activated a version."
              : "Only recent versions are kept per worker, and superseded versions may never be loaded."}
        </p>
      </Panel>
    );
  }
  return (
    <Panel title={title} note="time since publication, as reported, to about 1 s" className="span-6">
      <p className="small soft" data-slowest={slowest?.worker}>
        {slowest
          ? `Slowest: worker ${slowest.worker}, after ${duration(slowest.active)}.`
          : last
            ? `All workers that loaded it took ${(last.active ?? 0) < REPORT_SECONDS ? "less than 1 s" : `at most ${duration(last.active)}`}.`
            : "No worker uses it yet."}{" "}
        {missing > 0 && `${number(missing)} of ${number(bars.length)} never loaded it.`}
      </p>
      <Lanes
        label="Workers"
        lanes={bars.map((bar) => laneOf(bar, seconds, bar.worker === slowest?.worker))}
        legend={STAGES.map(({ fill, words }) => [fill, words] as const)}
      />
    </Panel>
  );
}
