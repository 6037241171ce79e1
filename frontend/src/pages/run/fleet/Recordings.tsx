import { Button, Group, Select, Text, VisuallyHidden } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { TAKES_OPERATOR, useMayOperate } from "@/api/session";
import type { RecordingRow, RunDetail, WorkerRow } from "@/api/types";
import { StateChip } from "@/components/chips";
import { type Column, DataTable } from "@/components/DataTable";
import { RECORDED_IN_EVENTS, ReasonDialog } from "@/components/Dialog";
import { Age, Hint } from "@/components/inline";
import { onDemand } from "@/components/onDemand";
import { EmptyState, Panel, rolldeckCommand } from "@/components/panels";
import { bytes, policyStep, visible } from "@/format";
import { recordingsQuery, useRequestRecordings } from "@/pages/run/fleet/api";
import { isOver } from "@/theme/chips";

const Viewer = onDemand(() => import("@/pages/run/fleet/RecordingViewer"), "default");
const EPISODES = ["1", "2", "3", "4"];

type AskProps = { run: RunDetail; workers: WorkerRow[]; onClose: () => void };

/** Request recordings of the next episodes, of any worker or of one. */
function Ask({ run, workers, onClose }: AskProps) {
  const [worker, setWorker] = useState("any");
  const [episodes, setEpisodes] = useState("1");
  const ask = useRequestRecordings(run.name);
  const running = workers.filter(({ state }) => state !== "stopped");
  const order = { worker: worker === "any" ? null : Number(worker), episodes: Number(episodes) };
  return (
    <ReasonDialog
      title={`Record episodes of ${run.name}`}
      asking={ask}
      refused="Recording not requested"
      recordedIn={RECORDED_IN_EVENTS}
      submit="Record"
      onSubmit={(reason) => ask.mutate({ ...order, reason }, { onSuccess: onClose })}
      onClose={onClose}
    >
      <p className="soft">A slot records the next episodes that start in it. Other slots are not affected.</p>
      <Group grow align="flex-end">
        <Select
          label="Worker"
          allowDeselect={false}
          data={[
            { value: "any", label: "any worker" },
            ...running.map(({ index }) => ({ value: String(index), label: `worker ${index}` })),
          ]}
          value={worker}
          onChange={(value) => setWorker(value ?? "any")}
        />
        <Select label="Episodes" allowDeselect={false} data={EPISODES} value={episodes} onChange={(value) => setEpisodes(value ?? "1")} />
      </Group>
    </ReasonDialog>
  );
}

const columnsOf = (onOpen: (recording: string) => void): Column<RecordingRow>[] => [
  { label: "State", value: ({ state }) => state, cell: ({ state, reason }) => <StateChip state={state} reason={reason} /> },
  {
    label: "Worker",
    isNumber: true,
    value: ({ worker }) => worker,
    cell: ({ worker, slot }) => (worker === null ? "–" : `${worker}${slot === null ? "" : ` · slot ${slot}`}`),
  },
  { label: "Return", isNumber: true, value: (row) => row.episode_return },
  { label: "Env steps", isNumber: true, value: (row) => row.episode_length },
  { label: "Policy version", isNumber: true, value: (row) => row.policy_step, cell: (row) => policyStep(row.policy_step) },
  {
    label: "Size",
    className: "soft",
    isNumber: true,
    value: (row) => row.size_bytes,
    cell: ({ state, size_bytes }) => (state === "ready" ? bytes(size_bytes) : "–"),
  },
  {
    label: "Requested",
    className: "soft nowrap",
    value: (row) => row.requested_at,
    cell: (row) => <Age at={row.requested_at} suffix=" ago" />,
  },
  {
    id: "watch",
    label: <VisuallyHidden>Watch</VisuallyHidden>,
    isNumber: true,
    cell: ({ id, state, reason }) =>
      state === "ready" ? (
        <Button size="compact-xs" variant="default" onClick={() => onOpen(id)}>
          Watch
        </Button>
      ) : (
        <Text size="sm" component="div" maw="22rem" className="soft anywhere" style={{ whiteSpace: "normal" }}>
          {visible(reason)}
        </Text>
      ),
  },
];

/** Requested recordings of episodes. */
export function Recordings({ run, workers }: { run: RunDetail; workers: WorkerRow[] }) {
  const { data: rows, error } = useQuery(recordingsQuery(run.name));
  const [openId, setOpenId] = useState<string | null>(null);
  const open = rows?.find(({ id }) => id === openId);
  const mayOperate = useMayOperate();
  const [isAsking, setAsking] = useState(false);
  const canRecord = run.allowed_verbs.length > 0 && !isOver(run.status) && workers.length > 0;
  return (
    <Panel
      title="Recordings"
      note="the next episodes of a slot, as video if the environment renders frames"
      aside={
        canRecord && (
          <Hint label={mayOperate ? "Record the next episodes of a slot." : TAKES_OPERATOR}>
            <Button size="compact-sm" variant="default" disabled={!mayOperate} onClick={() => setAsking(true)}>
              Record
            </Button>
          </Hint>
        )
      }
    >
      <DataTable
        label="Recordings, newest first"
        role="group"
        rows={rows}
        error={error}
        columns={columnsOf(setOpenId)}
        keyOf={({ id }) => id}
        attributes={({ state }) => ({ "data-recording": state })}
        empty={
          <EmptyState
            title="No recordings yet"
            command={rolldeckCommand(`api POST runs/${run.name}/recordings episodes=1`)}
            needs={{ scope: "user", run: run.name }}
          >
            {canRecord && mayOperate
              ? "Record captures the next episode of a slot. Other slots are not affected."
              : "Operators can record episodes while the fleet runs."}
          </EmptyState>
        }
      />
      {isAsking && <Ask run={run} workers={workers} onClose={() => setAsking(false)} />}
      {open && <Viewer run={run.name} recording={open} onClose={() => setOpenId(null)} />}
    </Panel>
  );
}
