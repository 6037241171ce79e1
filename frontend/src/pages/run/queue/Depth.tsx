import type { QueueAnswer } from "@/api/types";
import { Age } from "@/components/Age";
import { Line } from "@/components/Lanes";
import { Panel } from "@/components/Panel";
import { Table } from "@/components/Table";
import { number, percent, visible } from "@/format";
import { incompleteText } from "@/pages/run/queue/incomplete";
import runCss from "@/pages/run/run.module.css";

const fillOf = (place: number) => `var(--chart-${(place % 8) + 1})`;

/** Queued items by environment, stacked against the pause threshold. */
export function Depth({ queue }: { queue: QueueAnswer }) {
  const { environments, threshold, unit } = queue;
  const total = environments.reduce((sum, each) => sum + each.queued_sequences, 0);
  const scale = Math.max(threshold, total, 1);
  return (
    <Panel title="Depth by environment" note={<span data-quantity="queue">{`${number(total)} ${unit} queued`}</span>} className="span-6">
      <Line
        words={`${number(total)} ${unit} queued of the pause threshold ${number(threshold)}`}
        segments={environments.map(({ name, queued_sequences }, place) => ({
          key: name,
          width: queued_sequences / scale,
          fill: fillOf(place),
        }))}
        mark={threshold > 0 ? threshold / scale : undefined}
      />
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
                <span className={runCss.swatch} style={{ background: fillOf(i) }} aria-hidden="true" /> {visible(each.name)}
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
