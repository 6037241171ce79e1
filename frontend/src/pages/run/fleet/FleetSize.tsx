import { Button, NumberInput } from "@mantine/core";
import { useState } from "react";
import { useResize } from "@/api/runs";
import { TAKES_OPERATOR, useMayOperate } from "@/api/session";
import type { RunDetail, WorkerRow } from "@/api/types";
import { RECORDED_IN_EVENTS, ReasonDialog } from "@/components/Dialog";
import { Hint } from "@/components/inline";
import { counted } from "@/format";

const MOST_WORKERS = 4096;

/** Describe a change from `now` to `wanted` workers. */
export function whatHappens(now: number, wanted: number): string {
  if (wanted > now) return `Starts ${counted(wanted - now, "worker")}.`;
  if (wanted < now) return `${counted(now - wanted, "worker")} will send pending data and exit.`;
  return "At least 1. The run's configuration is not changed.";
}

/** The workers that are part of the fleet; rows of former workers remain as `stopped`. */
export function present(rows: readonly Pick<WorkerRow, "state">[]): number {
  return rows.filter(({ state }) => state !== "stopped").length;
}

/** Progress of a resize; empty once it is applied, and before there are any workers. */
export function sizePending(wanted: number, rows: readonly (Pick<WorkerRow, "state"> & Partial<Pick<WorkerRow, "cordon">>)[]): string {
  // A cordoned place counts as part of the fleet.
  const there = present(rows) + rows.filter(({ cordon }) => cordon === "out").length;
  return rows.length === 0 || there === wanted ? "" : `requested: ${counted(wanted, "worker")}; ${there} present`;
}

/** Change the number of workers during the run; shows the requested number until it is present. */
export function FleetSize({ run, workers }: { run: RunDetail; workers: WorkerRow[] }) {
  const mayOperate = useMayOperate();
  const resize = useResize(run.name);
  const [wanted, setWanted] = useState<number | null>(null);
  const now = run.num_workers;
  if (now === null) return null;
  const pending = sizePending(now, workers);
  const close = () => setWanted(null);
  return (
    <>
      {pending && (
        <span className="small held" data-size="requested" role="status">
          <span aria-hidden="true">◷</span> {pending}
        </span>
      )}
      <Hint label={mayOperate ? "Change the number of workers." : TAKES_OPERATOR}>
        <Button size="compact-sm" variant="default" disabled={!mayOperate} data-resize onClick={() => setWanted(now)}>
          Resize
        </Button>
      </Hint>
      {wanted !== null && (
        <ReasonDialog
          title={`Workers of ${run.name}`}
          asking={resize}
          refused="Fleet not resized"
          recordedIn={RECORDED_IN_EVENTS}
          submit="Resize"
          isReady={wanted !== now}
          onSubmit={(reason) => resize.mutate({ workers: wanted, reason }, { onSuccess: close })}
          onClose={close}
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
      )}
    </>
  );
}
