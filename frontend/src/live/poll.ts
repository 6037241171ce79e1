/** Poll a topic over REST while its socket cannot open. */

import { api, body } from "@/api/client";
import type { EpisodeRow, NewestTrajectories, RunDetail } from "@/api/types";
import type { PollAnswer } from "@/live/connection";
import type { Parts } from "@/live/frames";
import type { TopicState } from "@/live/reducer";

const NEWEST_ROWS = 5;

async function pollNewest({ name, kind }: RunDetail): Promise<NewestTrajectories> {
  const query = { run: name, kind: kind === "fleet" ? ("fragment" as const) : ("group" as const), limit: NEWEST_ROWS };
  return { samples: (await body(api.GET("/api/v1/trajectories", { params: { query } }))).results };
}

async function pollRun(name: string, shown: TopicState): Promise<PollAnswer> {
  const params = { path: { run: name } };
  const last = (shown.series.episodes as EpisodeRow[] | undefined)?.at(-1)?.id;
  const run = await body(api.GET("/api/v1/runs/{run}", { params }));
  const [newest, queue, fleet, pipeline, events, episodes] = await Promise.all([
    pollNewest(run),
    body(api.GET("/api/v1/runs/{run}/queue", { params })),
    body(api.GET("/api/v1/runs/{run}/fleet", { params })),
    body(api.GET("/api/v1/runs/{run}/pipeline", { params })),
    body(api.GET("/api/v1/runs/{run}/events", { params })),
    body(api.GET("/api/v1/runs/{run}/episodes", { params: { ...params, query: { after_id: last } } })),
  ]);
  return {
    parts: { run, newest, ledger: queue.ledger, fleet, diagnosis: pipeline.diagnosis, queue },
    series: {
      events: [...events.results].reverse(),
      episodes: [...episodes.results].reverse(),
    },
  };
}

async function pollMe(): Promise<Parts> {
  const [session, { notice }] = await Promise.all([body(api.GET("/api/v1/session")), body(api.GET("/api/v1/server/notice"))]);
  return { session, notice };
}

const READERS: Record<string, () => Promise<Parts>> = {
  runs: async () => ({ active: [], resting: (await body(api.GET("/api/v1/runs"))).results }),
  alerts: async () => ({ alerts: (await body(api.GET("/api/v1/alerts", { params: { query: { limit: 1 } } }))).summary }),
  cluster: async () => ({ cluster: await body(api.GET("/api/v1/cluster")) }),
  cluster_admin: async () => ({ cluster: await body(api.GET("/api/v1/cluster")) }),
  me: pollMe,
};

/** Return the update that the topic's socket would have sent. */
export async function poll(topic: string, shown: TopicState): Promise<PollAnswer> {
  if (topic.startsWith("run:")) return pollRun(topic.slice(4), shown);
  const read = READERS[topic];
  return { parts: read ? await read() : {}, series: {} };
}
