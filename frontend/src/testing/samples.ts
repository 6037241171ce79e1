/** Samples of lists. */

import type { Sample } from "@/samples/samples";
import type { AnswerTo } from "@/testing/server";

/** A group, or another sample, in a list. */
export function sampleOf(id: string, changes: Partial<Sample> = {}): Sample {
  return {
    ...{
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
    },
    ...{ scores: [0, 1], sequences: 2, length: 5, worker: "", epoch: 1, policy_step: 3, step: null, state: "queued", why: "" },
    ...{ flags: [], at: new Date().toISOString(), slot: "", number: null, excerpt: `Prompt ${id}`, answer: `answer ${id}` },
    ...{ is_indexed: true, mark: null, correct: null, advantages: [], columns: {} },
    ...changes,
  };
}

/** A page of a list with all that it covers. */
export function samplesOf(results: Sample[], changes: Partial<AnswerTo<"GET", "/api/v1/trajectories">> = {}) {
  return { results, next: null, is_partial: false, runs: 1, runs_left_out: 0, unindexed: 0, partly_searched: 0, ...changes };
}
