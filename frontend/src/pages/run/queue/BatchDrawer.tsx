import { Button, Group } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { batchQuery, type Decision, useDecide } from "@/api/queue";
import { useMayOperate } from "@/api/session";
import type { BatchItems, BatchRow, RunDetail } from "@/api/types";
import { type Column, DataTable } from "@/components/DataTable";
import { RECORDED_IN_EVENTS, ReasonDialog, SideSheet } from "@/components/Dialog";
import { Facts } from "@/components/Facts";
import { Age, AppLink, useNow } from "@/components/inline";
import { Copy, ErrorState, Skeletons } from "@/components/panels";
import { bytes, counted, duration, number, percent, policyStep, visible } from "@/format";
import { BatchChip, Composition } from "@/pages/run/queue/BatchTable";
import { latencySeconds, mayDecide, type Names } from "@/pages/run/queue/batches";
import css from "./queue.module.css";

function Lease({ batch }: { batch: BatchRow }) {
  const latency = latencySeconds(batch);
  return (
    <Facts
      facts={[
        [
          "Lease",
          <span key="lease">
            <BatchChip batch={batch} /> fence {batch.fence}
            {batch.lease_expiries > 0 && <span className="held"> · expired {counted(batch.lease_expiries, "time")}</span>}
          </span>,
        ],
        [
          "ID",
          <span key="id" className="mono">
            {batch.id.slice(0, 8)}… <Copy text={batch.id} label="Copy the batch ID" />
          </span>,
        ],
        ["Trainer", batch.trainer ? visible(batch.trainer) : "none"],
        [
          "Leased",
          <span key="leased">
            <Age at={batch.leased_at} suffix=" ago" />
            {latency !== null && `, acknowledged after ${duration(latency)}`}
          </span>,
        ],
        ["Policy", `version ${policyStep(batch.policy_step)} in epoch ${batch.epoch}`],
        [
          "Size",
          `${counted(batch.items, "item")}, ${counted(batch.sequences, "sequence")}, ${bytes(batch.size_bytes)}${batch.padding === null ? "" : `, ${percent(batch.padding)} padding`}`,
        ],
      ]}
    />
  );
}

type Item = BatchItems["results"][number];

const columnsOf = (run: RunDetail, isGroups: boolean): (Column<Item> | false)[] => [
  {
    label: isGroups ? "Group" : "Fragment",
    isNumber: true,
    value: ({ id }) => id,
    cell: ({ id }) => (
      <AppLink to={`/runs/${encodeURIComponent(run.name)}/${isGroups ? "groups" : "fragments"}/${id}`} data-strong>
        {id}
      </AppLink>
    ),
  },
  { label: "Environment", className: "anywhere", value: ({ environment }) => environment },
  { label: isGroups ? "Sequences" : "Steps", isNumber: true, value: ({ sequences, steps }) => (isGroups ? sequences : steps) },
  isGroups && { label: "Tokens", isNumber: true, value: ({ tokens }) => tokens },
  isGroups && { label: "Score", isNumber: true, value: (item) => item.score_mean },
  { label: "Versions behind", isNumber: true, value: ({ staleness }) => staleness },
  {
    label: "Received",
    isNumber: true,
    value: ({ received_at }) => received_at,
    cell: ({ received_at }) => <Age at={received_at} suffix=" ago" />,
  },
];

const DECISIONS: Record<Decision["verb"], { label: string; does: string }> = {
  release: { label: "Release", does: "Releases the batch; its items return individually to the head of the queue." },
  discard: { label: "Discard", does: "Drops its items permanently; they are counted but never used for training." },
};

/** Operator actions on a batch that no trainer holds. */
function Decide({ run, batch }: { run: RunDetail; batch: BatchRow }) {
  const decide = useDecide(run.name);
  const mayOperate = useMayOperate();
  const [verb, setVerb] = useState<Decision["verb"] | null>(null);
  const close = () => setVerb(null);
  return (
    <>
      {mayDecide(batch, useNow()) && (
        <Group gap="xs" my="sm" role="group" aria-label="Batch actions">
          {(["release", "discard"] as const).map((each) => (
            <Button key={each} variant="default" disabled={!mayOperate} title={DECISIONS[each].does} onClick={() => setVerb(each)}>
              {DECISIONS[each].label}
            </Button>
          ))}
        </Group>
      )}
      {verb && (
        <ReasonDialog
          title={`${DECISIONS[verb].label} batch ${number(batch.ordinal)}?`}
          asking={decide}
          refused="Action failed"
          recordedIn={RECORDED_IN_EVENTS}
          submit={DECISIONS[verb].label}
          needsReason={verb === "discard"}
          destroys={verb === "discard"}
          onSubmit={(reason) => decide.mutate({ batch: batch.id, verb, reason }, { onSuccess: close })}
          onClose={close}
        >
          <p>{DECISIONS[verb].does}</p>
        </ReasonDialog>
      )}
    </>
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
          <Lease batch={data.batch} />
          <Decide run={run} batch={data.batch} />
          <h3>Composition</h3>
          <Composition label="Composition" unit="Items" {...data.batch} names={names} />
          <h3>Items</h3>
          <DataTable
            label="Items of the batch"
            className={css.batchItems}
            rows={data.results}
            columns={columnsOf(run, run.kind !== "fleet")}
            keyOf={({ position }) => position}
            empty={<p className="faint small">The batch was released; its items are back in the queue.</p>}
          />
        </>
      )}
    </SideSheet>
  );
}
