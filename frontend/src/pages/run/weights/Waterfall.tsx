import type { PolicyVersionRow, WeightSyncRow, WorkerRow } from "@/api/types";
import { EmptyState } from "@/components/EmptyState";
import { Panel } from "@/components/Panel";
import { duration, number, policyStep } from "@/format";
import { type Bar, REPORT_SECONDS, STAGES, type Stage, waterfallOf } from "@/pages/run/weights/waterfall";

/** The stages that the glossary explains. */
const WORDS: Record<Stage, string> = { announced: "announced", staged: "received", active: "active" };

function place(from: number | null, to: number | null, seconds: number): { left: string; width: string } | null {
  if (to === null) return null;
  const begins = Math.min(from ?? 0, to);
  return { left: `${(100 * begins) / seconds}%`, width: `${(100 * (to - begins)) / seconds}%` };
}

function Row({ bar, seconds, isSlowest }: { bar: Bar; seconds: number; isSlowest: boolean }) {
  const words = STAGES.map((stage) => `${WORDS[stage]} ${bar[stage] === null ? "never" : `after ${duration(bar[stage])}`}`).join(", ");
  const spans = [
    { stage: "announced", at: place(0, bar.announced, seconds) },
    { stage: "staged", at: place(bar.announced, bar.staged, seconds) },
    { stage: "active", at: place(bar.staged ?? bar.announced, bar.active, seconds) },
  ];
  return (
    <li data-worker={bar.worker}>
      <span className="small">worker {bar.worker}</span>
      <span className="fall" role="img" aria-label={words} title={words}>
        {spans.map(({ stage, at }) => at && <span key={stage} className={`fall-part fall-${stage}`} style={at} />)}
      </span>
      <span className={`num small ${isSlowest ? "held" : "soft"}`}>
        {bar.active === null ? "not yet" : duration(bar.active)}
        {isSlowest && " ▲"}
      </span>
    </li>
  );
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
        <EmptyState
          title={
            keptInstead === null
              ? "No worker has reported this version"
              : `Not distributed: workers are pinned to version ${policyStep(keptInstead)}`
          }
        >
          {keptInstead !== null
            ? "Workers load it once they follow the newest version again, unless a newer one is published first."
            : workers.length === 0
              ? "Outside runs have no workers here; a fleet reports when each worker has announced, received and activated a version."
              : "Only recent versions are kept per worker, and superseded versions may never be loaded."}
        </EmptyState>
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
      <ul className="falls">
        {bars.map((bar) => (
          <Row key={bar.worker} bar={bar} seconds={seconds} isSlowest={bar.worker === slowest?.worker} />
        ))}
      </ul>
      <div className="legend tiny soft">
        {STAGES.map((stage) => (
          <span key={stage}>
            <span className={`swatch fall-${stage}`} aria-hidden="true" /> {WORDS[stage]}
          </span>
        ))}
      </div>
    </Panel>
  );
}
