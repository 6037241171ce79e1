import type { DeliveryRow, PolicyVersionRow, WorkerRow } from "@/api/types";
import { EmptyState } from "@/components/EmptyState";
import { Panel } from "@/components/Panel";
import { duration, number, policyStep } from "@/format";
import { type Bar, STAGES, type Stage, waterfallOf } from "@/pages/run/weights/waterfall";

const WORDS: Record<Stage, string> = { announced: "told of", staged: "received", active: "acts with" };

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
  deliveries: DeliveryRow[];
  workers: WorkerRow[];
  /** The version that workers keep, where that holds this one back. */
  keptInstead: number | null;
};

/** From the publication of one version to each worker that acts with it. */
export function Waterfall({ version, deliveries, workers, keptInstead }: Props) {
  const { bars, seconds, slowest, last, missing } = waterfallOf(version, deliveries);
  const title = `Version ${policyStep(version.step)} on its way`;
  if (bars.length === 0) {
    return (
      <Panel title={title} className="span-6">
        <EmptyState
          title={
            keptInstead === null ? "No worker has reported this version" : `Held back: workers keep version ${policyStep(keptInstead)}`
          }
        >
          {keptInstead !== null
            ? "It reaches them once they follow the newest version again, unless a later one comes first."
            : workers.length === 0
              ? "This run has no workers of ours; a fleet reports when it knows of a version, has it, and acts with it."
              : "Only the versions of the last reports are kept, and one that a later one overtook may never arrive."}
        </EmptyState>
      </Panel>
    );
  }
  return (
    <Panel title={title} note="since it was published; as reported, to about a second" className="span-6">
      <p className="small soft" data-slowest={slowest?.worker}>
        {slowest
          ? `Slowest: worker ${slowest.worker}, after ${duration(slowest.active)}.`
          : last
            ? `All that have it took ${duration(last.active)} or less.`
            : "No worker acts with it yet."}{" "}
        {missing > 0 && `${number(missing)} of ${number(bars.length)} never acted with it.`}
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
