import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { BESIDE_MS, batchesQuery } from "@/api/queue";
import type { LedgerCounts, RunDetail } from "@/api/types";
import { Panel } from "@/components/Panel";
import { counted, percent } from "@/format";
import { usePartChangeFeed } from "@/live/changeFeed";
import { stalenessBars } from "@/pages/run/queue/batches";
import { staleShare } from "@/pages/run/weights/waterfall";

const SHOWN = 50;

/** Staleness of the last batches, one column each, and the share dropped as stale. */
export function StalenessStrip({ run, counts }: { run: RunDetail; counts: LedgerCounts | undefined }) {
  const refetchInterval = usePartChangeFeed(`run:${run.name}`, "queue", BESIDE_MS, ["batches", run.name]);
  const { data } = useInfiniteQuery({ ...batchesQuery(run.name, undefined), refetchInterval });
  const batches = (data?.pages[0]?.results ?? []).slice(0, SHOWN).toReversed();
  const share = counts ? staleShare(counts) : null;
  const limit = run.max_staleness === null ? "no limit" : `limit ${counted(run.max_staleness, "version")}`;
  return (
    <Panel
      title="Staleness of leased batches"
      note={`versions behind per batch; ${limit}`}
      className="span-12"
      aside={
        <span className="small soft" data-stale-share>
          {share === null ? "" : `${percent(share)} dropped as stale`}
        </span>
      }
    >
      {batches.length === 0 ? (
        <p className="faint small">No batches leased yet.</p>
      ) : (
        <ol className="strip" aria-label="Staleness of the last batches, oldest first">
          {batches.map((batch) => {
            const bars = stalenessBars(batch.staleness);
            const words = `Batch ${batch.ordinal}: ${bars.map(({ versions, part }) => `${versions} behind ${percent(part)}`).join(", ") || "unknown"}`;
            return (
              <li key={batch.id}>
                <Link
                  to="/runs/$name/queue"
                  params={{ name: run.name }}
                  search={{ batch: batch.id }}
                  className="strip-column"
                  title={words}
                  aria-label={words}
                >
                  {bars.map(({ versions, part }) => (
                    <span key={versions} className={`stale-${Math.min(versions, 4)}`} style={{ flexGrow: part }} />
                  ))}
                </Link>
              </li>
            );
          })}
        </ol>
      )}
      <div className="legend tiny soft">
        {["0", "1", "2", "3", "4 or more"].map((words, i) => (
          <span key={words}>
            <span className={`swatch stale-${i}`} aria-hidden="true" /> {words} behind
          </span>
        ))}
      </div>
    </Panel>
  );
}
