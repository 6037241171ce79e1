import type { PreviewAnswer, QueueAnswer } from "@/api/types";
import { Age } from "@/components/Age";
import { Chip } from "@/components/Chip";
import { Panel } from "@/components/Panel";
import { Table } from "@/components/Table";
import { number, percent, visible } from "@/format";
import { type Names, nameIn } from "@/pages/run/queue/batches";
import queueCss from "@/pages/run/queue/queue.module.css";

const REASONS: Record<NonNullable<PreviewAnswer["reason"]>, string> = {
  unregistered: "No trainer has registered a batch size yet.",
  too_few: "Not enough sequences queued.",
  no_exact_fill: "No combination of groups adds up to exactly one batch.",
  waiting_for_minimum: "Waiting for an environment's minimum allocation.",
};

function Composition({ preview, names: named }: { preview: PreviewAnswer; names: Names }) {
  const names = [...new Set([...Object.keys(preview.composition), ...Object.keys(preview.shares)])].sort();
  const total = Object.values(preview.composition).reduce((sum, each) => sum + each, 0) || 1;
  return (
    <Table
      label="Composition of the next batch"
      columns={[
        "Environment",
        { label: "Sequences", className: "num" },
        { label: "Share", className: "num" },
        { label: "Target share", className: "num" },
      ]}
    >
      {names.map((name) => (
        <tr key={name}>
          <td className="anywhere">{visible(nameIn(named, name))}</td>
          <td className="num">{number(preview.composition[name] ?? 0)}</td>
          <td className="num">{percent((preview.composition[name] ?? 0) / total)}</td>
          <td className="num soft">{preview.shares[name] === undefined ? "–" : percent(preview.shares[name])}</td>
        </tr>
      ))}
    </Table>
  );
}

/** Preview of the next batch; does not lease it. */
export function Preview({ queue, preview: data, names }: { queue: QueueAnswer; preview: PreviewAnswer; names: Names }) {
  const stale = queue.queued_sequences - data.queued_sequences;
  return (
    <Panel title="Next batch" note="preview, not leased" className="span-6">
      <p className={queueCss.previewLine} data-preview={data.reason ?? "ready"}>
        {data.reason ? (
          <>
            <Chip tone="quiet" sign="◌">
              none yet
            </Chip>{" "}
            {REASONS[data.reason]}{" "}
            <span className="faint">
              {number(queue.queued_sequences)} of {number(data.batch_size)} sequences queued
              {stale > 0 && `, ${number(stale)} of them stale`}.
            </span>
          </>
        ) : (
          <>
            <Chip tone="good" sign="✓">
              ready
            </Chip>{" "}
            {number(data.items)} groups, {number(data.sequences)} sequences
            {data.retried_batch && <span className="held"> · leased again after an expired lease</span>}
          </>
        )}
      </p>
      {!data.reason && (
        <>
          <Composition preview={data} names={names} />
          <dl className={queueCss.facts}>
            <dt>Tokens</dt>
            <dd>
              {number(data.tokens)}, longest sequence {number(data.longest_tokens)}
            </dd>
            <dt>Padding</dt>
            <dd>{data.padding === null ? "–" : `${percent(data.padding)} of the positions are padding`}</dd>
            <dt>Group sizes</dt>
            <dd>
              {Object.entries(data.sizes)
                .map(([size, groups]) => `${number(groups)} × ${size}`)
                .join(", ")}
            </dd>
            <dt>Queue time</dt>
            <dd>
              {data.oldest_at ? (
                <>
                  from <Age at={data.newest_at} /> to <Age at={data.oldest_at} />
                </>
              ) : (
                "–"
              )}
            </dd>
          </dl>
        </>
      )}
    </Panel>
  );
}
