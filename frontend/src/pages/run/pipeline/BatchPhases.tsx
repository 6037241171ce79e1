import type { Pipeline } from "@/api/pipeline";
import { Panel } from "@/components/Panel";
import { number } from "@/format";
import styles from "@/pages/run/pipeline/pipeline.module.css";
import { batchPhases } from "@/pages/run/pipeline/stages";

/** The durations of a batch from formation to acknowledgement: delivery and training. */
export function BatchPhases({ pipeline }: { pipeline: Pipeline }) {
  const { total, segments } = batchPhases(pipeline.batches);
  return (
    <Panel
      title="Batch timeline"
      note={
        segments.length > 0 ? `${number(total)} ms from formed to acknowledged, mean of the last minute` : "from formed to acknowledged"
      }
      className="span-12"
    >
      {segments.length === 0 ? (
        <p className="soft small">No batch was delivered in the last minute.</p>
      ) : (
        <table className={`table ${styles.fall}`} aria-label="Batch timeline">
          <thead>
            <tr>
              <th scope="col">Phase</th>
              <th scope="col">
                <span className="unseen">Timeline</span>
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
            {segments.map(({ part, words, from, width, mean, p95, count }) => (
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
