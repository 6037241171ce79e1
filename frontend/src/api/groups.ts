/** API queries for the groups and fragments of a run: details and contents. */

import { queryOptions } from "@tanstack/react-query";
import { api, ask, body } from "@/api/client";
import type { components } from "@/api/schema";

type Schemas = components["schemas"];

export type GroupSummary = Schemas["GroupSummary"];
export type GroupDetail = Schemas["GroupDetail"];
/** The generated type loses that a turn is three values: first token, end (exclusive), own or not. */
export type SequenceSummary = Omit<Schemas["SequenceSummary"], "turns"> & { turns: [number, number, boolean][] };
export type SequenceList = Omit<Schemas["SequenceList"], "results"> & { results: SequenceSummary[] };
export type SequenceWindow = Schemas["SequenceWindow"];
export type MessageView = Schemas["MessageView"];
export type MessagePart = Schemas["MessagePart"];
export type Picture = Schemas["Picture"];

export const WINDOW_TOKENS = 4096;
const GROUP_FRESH_MS = 5_000;
/** Contents never change. */
const FIXED = { staleTime: Number.POSITIVE_INFINITY, retry: false } as const;

const path = (run: string, group: number) => ({ run, group: String(group) });
const pathOf = (run: string, group: number, sequence: number) => ({ ...path(run, group), sequence: String(sequence) });

export const groupQuery = (run: string, group: number) =>
  ask(["group", run, group], () => api.GET("/api/v1/runs/{run}/groups/{group}", { params: { path: path(run, group) } }), {
    staleTime: GROUP_FRESH_MS,
  });

export const sequencesQuery = (run: string, group: number) =>
  queryOptions({
    queryKey: ["group", run, group, "sequences"],
    queryFn: async () =>
      (await body(
        api.GET("/api/v1/runs/{run}/groups/{group}/sequences", { params: { path: path(run, group) } }),
      )) as unknown as SequenceList,
    ...FIXED,
  });

export const windowQuery = (run: string, group: number, sequence: number, start: number, count = WINDOW_TOKENS) =>
  ask(
    ["group", run, group, "window", sequence, start, count],
    () => {
      const params = { path: pathOf(run, group, sequence), query: { start, count } };
      return api.GET("/api/v1/runs/{run}/groups/{group}/sequences/{sequence}", { params });
    },
    { ...FIXED },
  );

/** The messages from the first answer on. */
export function answerOf(messages: MessageView[]): MessageView[] {
  const first = messages.findIndex(({ role }) => role === "assistant");
  return first < 0 ? [] : messages.slice(first);
}

export const messagesQuery = (run: string, group: number, sequence: number, characters: number, message?: number) =>
  ask(
    ["group", run, group, "messages", sequence, characters, message ?? -1],
    () => {
      const params = { path: pathOf(run, group, sequence), query: { characters, message } };
      return api.GET("/api/v1/runs/{run}/groups/{group}/sequences/{sequence}/messages", { params });
    },
    { ...FIXED },
  );

/** URL of a group's content. */
export const contentUrl = (run: string, group: number): string => `/api/v1/runs/${encodeURIComponent(run)}/groups/${group}/content`;

/** URL of a download of all groups that match a filter. */
export function exportUrl(run: string, { q, sort }: { q?: string; sort?: string }, form: "jsonl" | "parquet" | "inspect"): string {
  const asked = new URLSearchParams({ form, ...(q ? { q } : {}), ...(sort ? { sort } : {}) });
  return `/api/v1/runs/${encodeURIComponent(run)}/groups/export?${asked}`;
}

export type FragmentDetail = Schemas["FragmentDetail"];
export type FragmentContent = Schemas["FragmentContent"];
export type StepCurves = Schemas["StepCurves"];
export type EpisodeDetail = Schemas["EpisodeDetail"];
export type StepWindow = Schemas["StepWindow"];

export const WINDOW_STEPS = 512;
const FRAGMENT_FRESH_MS = 5_000;

export const fragmentQuery = (run: string, fragment: number) =>
  ask(
    ["fragment", run, fragment],
    () => api.GET("/api/v1/runs/{run}/fragments/{fragment}", { params: { path: { run, fragment: String(fragment) } } }),
    { staleTime: FRAGMENT_FRESH_MS, retry: false },
  );

export const episodeQuery = (run: string, episode: string) =>
  ask(["episode", run, episode], () => api.GET("/api/v1/runs/{run}/episodes/detail", { params: { path: { run }, query: { episode } } }), {
    staleTime: FRAGMENT_FRESH_MS,
    retry: false,
  });

export const stepsQuery = (run: string, fragment: number, start: number) =>
  ask(
    ["fragment", run, fragment, "steps", start],
    () => {
      const params = { path: { run, fragment: String(fragment) }, query: { start, count: WINDOW_STEPS } };
      return api.GET("/api/v1/runs/{run}/fragments/{fragment}/steps", { params });
    },
    { staleTime: Number.POSITIVE_INFINITY, retry: false },
  );
