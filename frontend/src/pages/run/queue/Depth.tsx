import type { QueueAnswer } from "@/api/types";
import { Age } from "@/components/Age";
import { Panel } from "@/components/Panel";
import { Table } from "@/components/Table";
import { number, percent, visible } from "@/format";
import { incompleteText } from "@/pages/run/queue/incomplete";

/** Queued items by environment, stacked against the pause threshold. */
export function Depth({ queue }: { queue: QueueAnswer }) {
  const { environments, threshold, unit } = queue;
  const total = environments.reduce((sum, each) => sum + each.queued_sequences, 0);
  const scale = Math.max(threshold, total, 1);
  return (
    <Panel title="Depth by environment" note={<span data-quantity="queue">{`${number(total)} ${unit} queued`}</span>} className="span-6">
      <div className="depth" role="img" aria-label={`${number(total)} ${unit} queued of the pause threshold ${number(threshold)}`}>
        {environments.map((each, i) => (
          <span
            key={each.name}
            className={`depth-part series-${(i % 8) + 1}`}
            style={{ width: percentage(each.queued_sequences / scale) }}
          />
        ))}
        {threshold > 0 && <span className="depth-mark" style={{ left: percentage(threshold / scale) }} />}
      </div>
      {environments.length === 0 ? (
        <p className="faint small">The queue is empty.</p>
      ) : (
        <Table
          label="Queue by environment"
          columns={[
            "Environment",
            { label: <>Queued · {unit}</>, className: "num" },
            { label: "Share", className: "num" },
            { label: "Incomplete", className: "num", title: "Partial groups wait until they add up to a full group" },
            { label: "Oldest", className: "num", title: "Age of the oldest queued item" },
          ]}
        >
          {environments.map((each, i) => (
            <tr key={each.name} data-environment={each.name}>
              <td className="anywhere">
                <span className={`swatch series-${(i % 8) + 1}`} aria-hidden="true" /> {visible(each.name)}
              </td>
              <td className="num">{number(each.queued_sequences)}</td>
              <td className="num">{total ? percent(each.queued_sequences / total) : "–"}</td>
              <td className="num" data-incomplete={each.waiting}>
                {number(each.waiting)}
                {incompleteText(each) && <div className="faint small">{incompleteText(each)}</div>}
                {each.waiting_since && (
                  <div className="faint small">
                    oldest <Age at={each.waiting_since} />
                  </div>
                )}
              </td>
              <td className="num">{each.oldest_at ? <Age at={each.oldest_at} /> : "–"}</td>
            </tr>
          ))}
        </Table>
      )}
    </Panel>
  );
}

function percentage(part: number): string {
  return `${Math.min(100, 100 * part)}%`;
}
