import { Button, Group, Textarea } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { batchQuery, type Decision, useDecide } from "@/api/queue";
import { useMayOperate } from "@/api/session";
import type { BatchItems, BatchRow, RunDetail } from "@/api/types";
import { Age } from "@/components/Age";
import { AppLink } from "@/components/AppLink";
import { Copy } from "@/components/Copying";
import { SideSheet } from "@/components/Dialog";
import { ErrorState } from "@/components/ErrorState";
import { useNow } from "@/components/now";
import { RECORDED_IN_EVENTS } from "@/components/recordedIn";
import { Skeletons } from "@/components/Skeletons";
import { Table } from "@/components/Table";
import { useDraft } from "@/components/useDraft";
import { bytes, counted, duration, number, percent, policyStep, utc, visible } from "@/format";
import { BatchChip } from "@/pages/run/queue/BatchTable";
import { latencySeconds, mayDecide, type Names, nameIn, stalenessBars } from "@/pages/run/queue/batches";
import queueCss from "@/pages/run/queue/queue.module.css";
import { Staleness } from "@/pages/run/queue/Staleness";

function Facts({ batch }: { batch: BatchRow }) {
  const latency = latencySeconds(batch);
  return (
    <dl className={queueCss.facts}>
      <dt>Lease</dt>
      <dd>
        <BatchChip batch={batch} /> fence {batch.fence}
        {batch.lease_expiries > 0 && <span className="held"> · expired {counted(batch.lease_expiries, "time")}</span>}
      </dd>
      <dt>ID</dt>
      <dd className="mono">
        {batch.id.slice(0, 8)}… <Copy text={batch.id} label="Copy the batch ID" />
      </dd>
      <dt>Trainer</dt>
      <dd className="anywhere">{batch.trainer ? visible(batch.trainer) : "none"}</dd>
      <dt>Leased</dt>
      <dd>
        <span title={utc(batch.leased_at)}>
          <Age at={batch.leased_at} suffix=" ago" />
        </span>
        {latency !== null && `, acknowledged after ${duration(latency)}`}
      </dd>
      <dt>Policy</dt>
      <dd>
        version {policyStep(batch.policy_step)} in epoch {batch.epoch}
      </dd>
      <dt>Size</dt>
      <dd>
        {number(batch.items)} items, {number(batch.sequences)} sequences, {bytes(batch.size_bytes)}
        {batch.padding !== null && `, ${percent(batch.padding)} padding`}
      </dd>
      <dt>Staleness</dt>
      <dd>
        <Staleness staleness={batch.staleness} /> {behindText(batch.staleness)}
      </dd>
    </dl>
  );
}

/** `8 versions behind`, or the share of each. */
function behindText(staleness: BatchRow["staleness"]): string {
  const bars = stalenessBars(staleness);
  const only = bars.length === 1 ? bars[0] : undefined;
  if (only) return `${counted(only.versions, "version")} behind`;
  return bars.map(({ versions, part }) => `${number(versions)} behind ${percent(part)}`).join(", ");
}

function Shares({ batch, names }: { batch: BatchRow; names: Names }) {
  const total = Object.values(batch.composition).reduce((sum, each) => sum + each, 0) || 1;
  return (
    <table className="table" aria-label="Composition">
      <thead>
        <tr>
          <th>Environment</th>
          <th className="num">Items</th>
          <th className="num">Share</th>
          <th className="num">Target share</th>
        </tr>
      </thead>
      <tbody>
        {Object.entries(batch.composition).map(([name, items]) => (
          <tr key={name}>
            <td className="anywhere">{visible(nameIn(names, name))}</td>
            <td className="num">{number(items)}</td>
            <td className="num">{percent(items / total)}</td>
            <td className="num soft">{batch.shares[name] === undefined ? "–" : percent(batch.shares[name])}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Items({ run, items }: { run: RunDetail; items: BatchItems["results"] }) {
  if (items.length === 0) return <p className="faint small">The batch was released; its items are back in the queue.</p>;
  const isGroups = run.kind !== "fleet";
  return (
    <Table
      label="Items of the batch"
      className={queueCss.batchItems}
      columns={[
        { label: isGroups ? "Group" : "Fragment", className: "num" },
        "Environment",
        { label: isGroups ? "Sequences" : "Steps", className: "num" },
        isGroups && { label: "Tokens", className: "num" },
        isGroups && { label: "Score", className: "num" },
        { label: "Versions behind", className: "num" },
        { label: "Received", className: "num" },
      ]}
    >
      {items.map((item) => (
        <tr key={item.position}>
          <td className="num">
            <AppLink to={`/runs/${encodeURIComponent(run.name)}/${isGroups ? "groups" : "fragments"}/${item.id}`} className="strong">
              {item.id}
            </AppLink>
          </td>
          <td className="anywhere">{visible(item.environment)}</td>
          <td className="num">{number(isGroups ? item.sequences : item.steps)}</td>
          {isGroups && <td className="num">{number(item.tokens)}</td>}
          {isGroups && <td className="num">{number(item.score_mean)}</td>}
          <td className="num">{item.staleness === null ? "–" : number(item.staleness)}</td>
          <td className="num">
            <Age at={item.received_at} suffix=" ago" />
          </td>
        </tr>
      ))}
    </Table>
  );
}

const DECISIONS: Record<Decision["verb"], { label: string; does: string }> = {
  release: { label: "Release", does: "Releases the batch; its items return individually to the head of the queue." },
  discard: { label: "Discard", does: "Drops its items permanently; they are counted but never used for training." },
};

/** Operator actions on a batch that no trainer holds. */
function Decide({ run, batch }: { run: RunDetail; batch: BatchRow }) {
  const decide = useDecide(run.name);
  const mayOperate = useMayOperate();
  const [verb, setVerb] = useState<Decision["verb"] | null>(null);
  const [reason, setReason] = useDraft(`batch:${batch.id}`);
  if (!mayDecide(batch, useNow())) return decide.error ? <ErrorState title="Action failed" error={decide.error} /> : null;
  if (!verb) {
    return (
      <Group gap="xs" my="sm" role="group" aria-label="Batch actions">
        {(["release", "discard"] as const).map((each) => (
          <Button key={each} variant="default" disabled={!mayOperate} title={DECISIONS[each].does} onClick={() => setVerb(each)}>
            {DECISIONS[each].label}
          </Button>
        ))}
      </Group>
    );
  }
  const { label, does } = DECISIONS[verb];
  return (
    <form
      className={queueCss.decide}
      onSubmit={(event) => {
        event.preventDefault();
        decide.mutate({ batch: batch.id, verb, reason }, { onSettled: () => setVerb(null), onSuccess: () => setReason("") });
      }}
    >
      <p className="soft small">{does}</p>
      <Textarea
        label="Reason"
        description={RECORDED_IN_EVENTS}
        value={reason}
        maxLength={2000}
        required={verb === "discard"}
        autosize
        minRows={2}
        autoFocus
        onChange={(event) => setReason(event.currentTarget.value)}
      />
      <Group justify="flex-end" mt="sm">
        <Button variant="default" onClick={() => setVerb(null)}>
          Cancel
        </Button>
        <Button
          type="submit"
          loading={decide.isPending}
          disabled={verb === "discard" && !reason.trim()}
          color={verb === "discard" ? "red.8" : undefined}
        >
          {label}
        </Button>
      </Group>
    </form>
  );
}

type Props = { run: RunDetail; names: Names; id: string; onClose: () => void };

/** One batch: its lease, composition and staleness. */
export default function BatchDrawer({ run, names, id, onClose }: Props) {
  const { data, error } = useQuery(batchQuery(run.name, id));
  return (
    <SideSheet onClose={onClose} size="xl" title={data ? `Batch ${number(data.batch.ordinal)}` : "Batch"}>
      {error && <ErrorState title="Batch unavailable" error={error} />}
      {!data && !error && <Skeletons heights={[180, 320]} />}
      {data && (
        <>
          <Facts batch={data.batch} />
          <Decide run={run} batch={data.batch} />
          <h3>Composition</h3>
          <Shares batch={data.batch} names={names} />
          <h3>Items</h3>
          <Items run={run} items={data.results} />
        </>
      )}
    </SideSheet>
  );
}
