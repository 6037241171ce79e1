import { Hint } from "@/components/Hint";
import { number, percent } from "@/format";
import { stalenessBars } from "@/pages/run/queue/batches";
import queueCss from "@/pages/run/queue/queue.module.css";

/** A small histogram of a batch's items by versions behind. */
export function Staleness({ staleness }: { staleness: Record<string, number> }) {
  const bars = stalenessBars(staleness);
  if (bars.length === 0) return <span className="faint">–</span>;
  const words = bars.map(({ versions, items, part }) => `${versions} behind: ${number(items)} (${percent(part)})`);
  return (
    <Hint label={words.map((line) => <div key={line}>{line}</div>)}>
      <span className={queueCss.spark} role="img" aria-label={words.join("; ")} tabIndex={0}>
        {bars.map(({ versions, part }) => (
          <span
            key={versions}
            className={`${queueCss.sparkBar} ${queueCss[`stale-${Math.min(versions, 4)}`]}`}
            style={{ height: `${Math.max(8, 100 * part)}%` }}
          />
        ))}
      </span>
    </Hint>
  );
}
