/** Read a topic over REST, for as long as its socket cannot open. */

import { api, body } from "@/api/client";
import type { EpisodeRow, LedgerPart, QueuePart, RunDetail } from "@/api/types";
import type { PollAnswer } from "@/live/connection";
import type { TopicState } from "@/live/reducer";

/** The queue as far as the run and its ledger tell it. */
function queueOf(run: RunDetail, ledger: LedgerPart): QueuePart {
  const counts = run.kind === "fleet" ? ledger.fragments : ledger.groups;
  const threshold = run.off_policy_tolerance * (run.batch_size ?? 0);
  return {
    queued: counts.queued,
    waiting: counts.waiting,
    leased: counts.leased,
    threshold,
    batch_size: run.batch_size,
    over_threshold: threshold > 0 && counts.queued > threshold,
    served_steps: run.served_steps,
  };
}

async function pollRun(name: string, shown: TopicState): Promise<PollAnswer> {
  const params = { path: { run: name } };
  const after = (shown.series.episodes as EpisodeRow[] | undefined)?.at(-1)?.id;
  const [run, ledger, fleet, pipeline, events, episodes] = await Promise.all([
    body(api.GET("/api/runs/{run}", { params })),
    body(api.GET("/api/runs/{run}/ledger", { params })),
    body(api.GET("/api/runs/{run}/fleet", { params })),
    body(api.GET("/api/runs/{run}/pipeline", { params })),
    body(api.GET("/api/runs/{run}/events", { params })),
    body(api.GET("/api/runs/{run}/episodes", { params: { ...params, query: { after } } })),
  ]);
  return {
    parts: { run, ledger, fleet, verdict: pipeline.verdict, queue: queueOf(run, ledger) },
    series: {
      events: [...events.results].reverse(),
      episodes: episodes.results,
    },
  };
}

/** Return what the topic's socket would have told. */
export async function poll(topic: string, shown: TopicState): Promise<PollAnswer> {
  if (topic.startsWith("run:")) return pollRun(topic.slice(4), shown);
  if (topic === "alerts") {
    const { summary } = await body(api.GET("/api/alerts", { params: { query: { limit: 1 } } }));
    return { parts: { alerts: summary }, series: {} };
  }
  const list = await body(api.GET("/api/runs"));
  return { parts: { runs: list.results }, series: {} };
}
