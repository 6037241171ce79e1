/** Steps from a launched run to its first trained batch. Pure. */

import type { FleetPart, LedgerPart, RunDetail } from "@/api/types";
import type { Needs } from "@/components/panels";
import { counted, inUnit } from "@/format";
import { environmentCommand, serveCommand, trainerCommand } from "@/runs/words";

export type StartStep = {
  title: string;
  isDone: boolean;
  /** Progress or explanation. */
  note: string;
  /** Command that completes the step. */
  command?: string;
  needs?: Needs;
  /** The command runs beside that of the next step. */
  isBackground?: boolean;
};

type Progress = { run: RunDetail; fleet: FleetPart | undefined; ledger: LedgerPart | undefined };

const ACTIVE = new Set<RunDetail["status"]>(["queued", "starting", "running"]);

/** The remaining and completed steps; empty once a batch was trained, or for a run that is not active. */
export function startSteps(progress: Progress, origin: string): StartStep[] {
  const { run } = progress;
  if (!ACTIVE.has(run.status)) return [];
  const steps = run.kind === "outside" ? outsideSteps(progress, origin) : fleetSteps(progress, origin);
  return steps.every((step) => step.isDone) ? [] : steps;
}

function fleetSteps({ run, fleet }: Progress, origin: string): StartStep[] {
  const running = fleet?.workers.filter((worker) => worker.state === "running").length ?? 0;
  const inference = inferenceOf(run);
  const hasWeights = run.policy_step !== -2;
  return [
    {
      title: "Fleet",
      isDone: running > 0 || hasWeights,
      note: `${running} of ${counted(run.num_workers ?? 0, "worker")} running`,
    },
    ...(inference
      ? [
          {
            title: `Inference server ${inference}`,
            isDone: run.served_steps > 0,
            note: inferenceNote(run),
            command: serveCommand(run),
            isBackground: true,
          },
        ]
      : []),
    {
      title: "Trainer",
      isDone: hasWeights,
      note: hasWeights ? `Version ${run.policy_step} is published.` : "It publishes its initial weights; workers cannot act without them.",
      command: trainerCommand(run, origin),
      needs: { scope: "trainer" as const, run: run.name },
    },
    firstBatch(run),
  ];
}

function outsideSteps({ run, ledger }: Progress, origin: string): StartStep[] {
  const accepted = ledger?.groups?.accepted ?? 0;
  return [
    {
      title: "Trainer",
      isDone: run.trainer_started_at !== null,
      note: run.registered_at ? "Registered; it has not requested a batch yet." : "It registers with a batch size and requests a batch.",
      command: trainerCommand(run, origin),
      needs: { scope: "trainer" as const, run: run.name },
    },
    {
      title: "Environment",
      isDone: accepted > 0,
      note: accepted > 0 ? "Groups arrive." : "It pushes groups once the trainer has requested a batch.",
      command: environmentCommand(run.name, origin),
      needs: { scope: "env" as const, run: run.name },
    },
    firstBatch(run),
  ];
}

/** The open steps whose commands are shown: the first, and the next one if the first runs in the background. */
export function nextSteps(steps: readonly StartStep[]): StartStep[] {
  const open = steps.filter((step) => !step.isDone);
  const withCommand = open.filter((step) => step.command);
  if (withCommand.length === 0) return open.slice(0, 1);
  return withCommand.slice(0, withCommand[0]?.isBackground ? 2 : 1);
}

function firstBatch(run: RunDetail): StartStep {
  return {
    title: "First batch",
    isDone: run.served_steps > 0,
    note: run.batch_size ? `A batch has ${inUnit(run.batch_size, unit(run))}.` : "",
  };
}

function unit(run: RunDetail): string {
  return run.kind === "fleet" ? "fragments" : "sequences";
}

function inferenceNote({ inference_server }: RunDetail): string {
  if (!inference_server) return "The server is not configured any more.";
  const { kind, port } = inference_server;
  if (kind === "rolldeck") return "Workers generate with this server and load the weights into it.";
  return `Workers generate with this server, of the kind ${kind}, on port ${port}.`;
}

/** Name of the run's inference server; empty if workers generate themselves. */
function inferenceOf(run: RunDetail): string {
  const language = (run.config as { language?: { inference?: string } | null }).language;
  return language?.inference ?? "";
}
