/** Runs as the server describes them. */

import type { components } from "@/api/schema";
import type { RunDetail } from "@/api/types";
import type { Server } from "@/testing/server";

/** The part of a ledger of a run without short groups. */
export const NO_LOSSES = { failed: {}, refilled: 0, lost_siblings: 0 };

/** A running outside run, with changes. */
export function runOf(name: string, changes: Partial<RunDetail> = {}): RunDetail {
  const now = new Date().toISOString();
  return {
    id: 7,
    uid: `run_${"0".repeat(23)}7`,
    name,
    kind: "outside",
    status: "running",
    status_reason: "",
    status_changed_at: now,
    started_at: now,
    drain_target: "",
    drain_deadline_at: null,
    preset: "",
    created_by: "user:ada",
    created_at: now,
    archived_at: null,
    is_default: false,
    batch_size: null,
    max_token_len: null,
    num_steps: 0,
    ends_at_num_steps: false,
    num_workers: null,
    max_staleness: null,
    max_age_seconds: null,
    off_policy_tolerance: 3,
    exact_queue_size: false,
    lenient: false,
    lease_seconds: 60,
    dry_deadline_seconds: null,
    advantages: "",
    drop_zero_variance: false,
    on_second_registration: "keep",
    overlong_sequences: "drop",
    unscored_sequences: "refuse",
    least_group_size: 2,
    served_steps: 0,
    epoch: 0,
    policy_step: -1,
    ledger_problem: "",
    registered_at: null,
    trainer_started_at: null,
    allowed_verbs: ["pause", "drain", "stop", "kill"],
    wandb_group: null,
    wandb_project: null,
    project: null,
    project_uid: null,
    tags: [],
    config: {},
    inference_server: { kind: "rolldeck", port: 0 },
    ...changes,
  };
}

/** A list of runs; those of `all` whose names contain every quoted word of the search. */
export function listOf(all: RunDetail[], q = ""): components["schemas"]["RunList"] {
  const words = [...q.matchAll(/"([^"]*)"/g)].map(([, word = ""]) => word);
  const found = all.filter(({ name }) => words.every((word) => name.includes(word)));
  return { results: found.map((run) => ({ ...run, environment: null })), next: null, total: found.length };
}

const known = new WeakMap<Server, Map<string, RunDetail>>();

/** Let a server have a run, whose page it keeps current. */
export function addRun(server: Server, run: RunDetail): RunDetail {
  const runs = known.get(server) ?? new Map<string, RunDetail>();
  known.set(server, runs.set(run.name, run));
  server.on("GET", "/api/v1/runs/{run}", ({ path }) => runs.get(path.split("/").at(-1) ?? "") ?? run).tell(`run:${run.name}`, { run });
  return run;
}
