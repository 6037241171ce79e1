import { Button, Group, Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { TAKES_OPERATOR, useMayOperate } from "@/api/session";
import type { RecordingRow, RunDetail, WorkerRow } from "@/api/types";
import { Age } from "@/components/Age";
import { rolldeckCommand } from "@/components/commandToken";
import { EmptyState } from "@/components/EmptyState";
import { ErrorState } from "@/components/ErrorState";
import { Hint } from "@/components/Hint";
import { onDemand } from "@/components/onDemand";
import { Panel } from "@/components/Panel";
import { ReasonDialog } from "@/components/ReasonDialog";
import { RECORDED_IN_EVENTS } from "@/components/recordedIn";
import { StateChip } from "@/components/StateChip";
import { type Heading, Table } from "@/components/Table";
import { bytes, number, policyStep, visible } from "@/format";
import { recordingsQuery, useRequestRecordings } from "@/pages/run/fleet/api";
import { choice, slotChoices, workerChoices } from "@/pages/run/fleet/recordingChoices";
import logCss from "@/pages/run/logs/logs.module.css";

const Viewer = onDemand(() => import("@/pages/run/fleet/RecordingViewer"), "default");
const ENDED = new Set(["stopped", "completed", "failed"]);
const EPISODES = ["1", "2", "3", "4"];

type AskProps = { run: RunDetail; workers: WorkerRow[]; onClose: () => void };

function Ask({ run, workers, onClose }: AskProps) {
  const [worker, setWorker] = useState("any");
  const [slot, setSlot] = useState("any");
  const [episodes, setEpisodes] = useState("1");
  const ask = useRequestRecordings(run.name);
  return (
    <ReasonDialog
      title={`Record episodes of ${run.name}`}
      asking={ask}
      refused="Recording not requested"
      recordedIn={RECORDED_IN_EVENTS}
      submit="Record"
      onSubmit={(reason) =>
        ask.mutate({ worker: choice(worker), slot: choice(slot), episodes: Number(episodes), reason }, { onSuccess: onClose })
      }
      onClose={onClose}
    >
      <p className="soft">A slot records the next episodes that start in it. Other slots are not affected.</p>
      <Group grow align="flex-end">
        <Select
          label="Worker"
          allowDeselect={false}
          data={workerChoices(workers)}
          value={worker}
          onChange={(value) => {
            setWorker(value ?? "any");
            setSlot("any");
          }}
        />
        <Select
          label="Slot"
          allowDeselect={false}
          disabled={worker === "any"}
          data={slotChoices(workers, choice(worker))}
          value={slot}
          onChange={(value) => setSlot(value ?? "any")}
        />
        <Select label="Episodes" allowDeselect={false} data={EPISODES} value={episodes} onChange={(value) => setEpisodes(value ?? "1")} />
      </Group>
    </ReasonDialog>
  );
}

function Line({ row, onOpen }: { row: RecordingRow; onOpen: () => void }) {
  const where = row.worker === null ? "–" : `${row.worker}${row.slot === null ? "" : ` · slot ${row.slot}`}`;
  return (
    <tr data-recording={row.state}>
      <td>
        <StateChip state={row.state} reason={row.reason} />
      </td>
      <td className="num">{where}</td>
      <td className="num">{number(row.episode_return)}</td>
      <td className="num">{number(row.episode_length)}</td>
      <td className="num">{policyStep(row.policy_step)}</td>
      <td className="num soft">{row.state === "ready" ? bytes(row.size_bytes) : "–"}</td>
      <td className="soft nowrap">
        <Age at={row.requested_at} suffix=" ago" />
      </td>
      <td className={logCss.recordingEnd}>
        {row.state === "ready" ? (
          <Button size="compact-xs" variant="default" onClick={onOpen}>
            Watch
          </Button>
        ) : (
          <span className="small soft anywhere">{visible(row.reason)}</span>
        )}
      </td>
    </tr>
  );
}

const COLUMNS: Heading[] = [
  "State",
  ...["Worker", "Return", "Env steps", "Policy version", "Size"].map((label) => ({ label, className: "num" })),
  "Requested",
  { label: <span className="unseen">Watch</span> },
];

/** Requested recordings of episodes. */
export function Recordings({ run, workers }: { run: RunDetail; workers: WorkerRow[] }) {
  const { data: rows, error } = useQuery(recordingsQuery(run.name));
  const [openId, setOpenId] = useState<string | null>(null);
  const open = rows?.find(({ id }) => id === openId);
  const mayOperate = useMayOperate();
  const [isAsking, setAsking] = useState(false);
  const canRecord = run.allowed_verbs.length > 0 && !ENDED.has(run.status) && workers.length > 0;
  if (run.kind === "outside") return null;
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
      className="span-12"
    >
      {error && <ErrorState title={rows ? "Recordings not refreshed" : "Recordings unavailable"} error={error} />}
      {rows && rows.length > 0 ? (
        <Table label="Recordings, newest first" role="group" columns={COLUMNS}>
          {rows.map((row) => (
            <Line key={row.id} row={row} onOpen={() => setOpenId(row.id)} />
          ))}
        </Table>
      ) : error ? null : (
        <EmptyState
          title="No recordings yet"
          command={rolldeckCommand(
            run.allowed_verbs.includes("start") ? `start ${run.name}` : `api POST runs/${run.name}/recordings episodes=1`,
          )}
          needs={{ scope: "user", run: run.name }}
        >
          {canRecord && mayOperate
            ? "Record captures the next episode of a slot. Other slots are not affected."
            : "Operators can record episodes while the fleet runs."}
        </EmptyState>
      )}
      {isAsking && <Ask run={run} workers={workers} onClose={() => setAsking(false)} />}
      {open && <Viewer run={run.name} recording={open} onClose={() => setOpenId(null)} />}
    </Panel>
  );
}
