import type { Pipeline } from "@/api/pipeline";
import { Panel } from "@/components/Panel";
import { number } from "@/format";
import styles from "@/pages/run/pipeline/pipeline.module.css";
import { batchWay } from "@/pages/run/pipeline/stages";

/** From the moment a batch is formed to its confirmation: how long it is under way, how long in hand. */
export function BatchWay({ pipeline }: { pipeline: Pipeline }) {
  const { total, stretches } = batchWay(pipeline.batches);
  return (
    <Panel
      title="One batch"
      note={stretches.length > 0 ? `${number(total)} ms from formed to confirmed, mean of the last minute` : "from formed to confirmed"}
      className="span-12"
    >
      {stretches.length === 0 ? (
        <p className="soft small">No batch reached a trainer in the last minute.</p>
      ) : (
        <table className={`table ${styles.fall}`} aria-label="The way of a batch">
          <thead>
            <tr>
              <th scope="col">From – to</th>
              <th scope="col">
                <span className="unseen">When</span>
              </th>
              <th scope="col" className="num">
                Mean
              </th>
              <th scope="col" className="num wide-only">
                95th percentile
              </th>
              <th scope="col" className="num wide-only">
                Batches
              </th>
            </tr>
          </thead>
          <tbody>
            {stretches.map(({ part, words, from, width, mean, p95, count }) => (
              <tr key={part} data-way={part}>
                <th scope="row">{words}</th>
                <td className={styles.track}>
                  <span data-part={part} style={{ marginLeft: `${100 * from}%`, width: `${100 * width}%` }} />
                </td>
                <td className="num">{number(mean)} ms</td>
                <td className="num soft wide-only">{number(p95)} ms</td>
                <td className="num soft wide-only">{number(count)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Panel>
  );
}
