/** Samples of lists. */

import type { GroupDetail, GroupSummary } from "@/api/groups";
import type { Sample } from "@/samples/samples";
import type { AnswerTo } from "@/testing/server";

/** A group, or another sample, in a list. */
export function sampleOf(id: string, changes: Partial<Sample> = {}): Sample {
  return {
    kind: "group",
    id,
    run: "alpha",
    run_uid: `run_${"0".repeat(24)}`,
    project: null,
    environment: "",
    lesson: "",
    score: 0.5,
    score_min: 0,
    score_max: 1,
    scores: [0, 1],
    sequences: 2,
    length: 5,
    worker: "",
    epoch: 1,
    policy_step: 3,
    step: null,
    state: "queued",
    why: "",
    flags: [],
    at: new Date().toISOString(),
    slot: "",
    number: null,
    excerpt: `Prompt ${id}`,
    answer: `answer ${id}`,
    is_indexed: true,
    mark: null,
    correct: null,
    advantages: [],
    columns: {},
    ...changes,
  };
}

/** A page of a list with all that it covers. */
export function samplesOf(results: Sample[], changes: Partial<AnswerTo<"GET", "/api/v1/trajectories">> = {}) {
  return { results, next: null, is_partial: false, runs: 1, runs_left_out: 0, unindexed: 0, partly_searched: 0, ...changes };
}

/** The digest of a prompt. */
export const PROMPT = "ab".repeat(16);

/** A group of two sequences in full. */
export function groupOf(id: number, policy_step: number, changes: Partial<GroupSummary> = {}): GroupSummary {
  return {
    id,
    epoch: 0,
    policy_step,
    prompt: PROMPT,
    excerpt: "Add 2 and 2",
    answer: `answer ${id}`,
    state: "served",
    drop_reason: "",
    env_id: null,
    lesson: "",
    worker: "",
    example: "",
    producer: "env",
    step: 3,
    position: 0,
    size_bytes: 100,
    sequences: 2,
    received_at: new Date().toISOString(),
    tokens: 10,
    longest_tokens: 5,
    scores: [0, 1],
    lengths: [5, 5],
    flags: [],
    score_mean: id / 100,
    score_min: 0,
    score_max: 1,
    score_std: 0.5,
    is_digested: true,
    has_bytes: true,
    environment: "",
    batch: null,
    mark: null,
    ...changes,
  };
}

export const detailOf = (group: GroupSummary): GroupDetail => ({
  outcome: `Trained on in batch ${group.id}.`,
  group,
  batch: null,
  version: null,
  facts: {},
  env_spec: "",
  seed: null,
  newer: null,
  older: null,
});
