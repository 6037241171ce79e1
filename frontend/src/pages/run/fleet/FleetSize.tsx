import { Button, NumberInput } from "@mantine/core";
import { useState } from "react";
import { useResize } from "@/api/runs";
import { TAKES_OPERATOR, useMayOperate } from "@/api/session";
import type { RunDetail, WorkerRow } from "@/api/types";
import { RECORDED_IN_EVENTS, ReasonDialog } from "@/components/Dialog";
import { Hint } from "@/components/inline";
import { counted } from "@/format";
import runCss from "@/pages/run/run.module.css";

const MOST_WORKERS = 4096;

const workers = (count: number) => counted(count, "worker");

/** Describe a change from `now` to `wanted` workers. */
export function whatHappens(now: number, wanted: number): string {
  if (wanted > now) return `Starts ${workers(wanted - now)}.`;
  if (wanted < now) return `${workers(now - wanted)} will send pending data and exit.`;
  return "At least 1. The run's configuration is not changed.";
}

/** The workers that are part of the fleet; rows of former workers remain as `stopped`. */
export function present(rows: readonly Pick<WorkerRow, "state">[]): number {
  return rows.filter(({ state }) => state !== "stopped").length;
}

type Arrival = { state: "applied" | "requested"; text: string };

/** Progress of a resize; null before there are any workers. */
export function sizeArrival(
  wanted: number,
  rows: readonly (Pick<WorkerRow, "state"> & Partial<Pick<WorkerRow, "cordon">>)[],
): Arrival | null {
  if (rows.length === 0) return null;
  // A cordoned place counts as part of the fleet.
  const there = present(rows) + rows.filter(({ cordon }) => cordon === "out").length;
  if (there === wanted) return { state: "applied", text: "applied" };
  return { state: "requested", text: `requested: ${workers(wanted)}; ${there} present` };
}

type ResizeProps = { name: string; now: number; onClose: () => void };

function Resize({ name, now, onClose }: ResizeProps) {
  const [wanted, setWanted] = useState(now);
  const resize = useResize(name);
  return (
    <ReasonDialog
      title={`Workers of ${name}`}
      asking={resize}
      refused="Fleet not resized"
      recordedIn={RECORDED_IN_EVENTS}
      submit="Resize"
      isReady={wanted !== now}
      onSubmit={(reason) => resize.mutate({ workers: wanted, reason }, { onSuccess: onClose })}
      onClose={onClose}
    >
      <NumberInput
        label="Workers"
        description={whatHappens(now, wanted)}
        value={wanted}
        min={1}
        max={MOST_WORKERS}
        allowDecimal={false}
        clampBehavior="strict"
        data-autofocus
        onChange={(value) => setWanted(Number(value) || now)}
      />
    </ReasonDialog>
  );
}

type Props = { run: RunDetail; workers: WorkerRow[] };

/** Requested and present number of workers; operators can change it during the run. */
export function FleetSize({ run, workers }: Props) {
  const mayOperate = useMayOperate();
  const [open, setOpen] = useState(false);
  if (run.num_workers === null) return null;
  const arrived = sizeArrival(run.num_workers, workers);
  return (
    <>
      {arrived && (
        <span className={`small soft ${runCss[`arrival-${arrived.state}`]}`} data-size={arrived.state} role="status">
          <span aria-hidden="true">{arrived.state === "applied" ? "✓" : "◷"}</span> {arrived.text}
        </span>
      )}
      <Hint label={mayOperate ? "Change the number of workers." : TAKES_OPERATOR}>
        <Button size="compact-sm" variant="default" disabled={!mayOperate} data-resize onClick={() => setOpen(true)}>
          {counted(run.num_workers, "worker")} requested
        </Button>
      </Hint>
      {open && <Resize name={run.name} now={run.num_workers} onClose={() => setOpen(false)} />}
    </>
  );
}
