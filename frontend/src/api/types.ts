/** Name what the API and the live topics hand out: the generated types, and the two live shapes. */

import type { components } from "@/api/schema";

type Schemas = components["schemas"];

export type RunSummary = Omit<Schemas["RunDetail"], "config">;
export type RunDetail = Schemas["RunDetail"];
export type RunStatus = RunSummary["status"];
export type RunVerb = RunSummary["allowed_verbs"][number];
export type RunEvent = Schemas["Event"];
export type FleetPart = Schemas["FleetState"];
export type WorkerRow = Schemas["WorkerState"];
export type SlotReport = Schemas["SlotState"];
export type FleetLog = Schemas["FleetLog"];
export type RecordingRow = Schemas["RecordingRow"];
export type EpisodeRow = Schemas["EpisodeRow"];
export type EpisodeSummary = Schemas["EpisodeSummary"];
export type TaskEpisodes = Schemas["TaskEpisodes"];
export type LessonRow = Schemas["LessonRow"];
export type LessonChange = Schemas["LessonChangeRow"];
export type LessonProgress = Schemas["LessonProgress"];
export type EvaluationRow = Schemas["EvaluationRow"];
export type CurriculumPart = Schemas["CurriculumSummary"];
export type LedgerPart = Schemas["LedgerAnswer"];
export type LedgerCounts = Schemas["KindLedger"];
export type Session = Schemas["Session"];
export type RunCheck = Schemas["RunCheck"];
export type QueueAnswer = Schemas["QueueAnswer"];
export type PreviewAnswer = Schemas["PreviewAnswer"];
export type BatchRow = Schemas["BatchRow"];
export type BatchItems = Schemas["BatchItems"];
export type EnvironmentRow = Schemas["EnvironmentRow"];
export type EnvironmentMixing = Schemas["EnvironmentMixing"];
export type PolicyVersionRow = Schemas["PolicyVersionRow"];
export type DeliveryRow = Schemas["DeliveryRow"];
export type Preset = Schemas["Preset"];

/** A row of the live runs list: the run, and numbers beside it when they are cheap to know. */
export type RunRow = RunSummary & {
  queued?: number | null;
  return_mean?: number | null;
  workers?: number | null;
  observed_at?: string | null;
  environment: string | null;
};

export type QueuePart = {
  queued: number;
  queued_sequences?: number;
  waiting: number;
  leased: number;
  threshold: number;
  batch_size: number | null;
  over_threshold: boolean;
  served_steps: number;
  admission_remaining?: number | null;
  items_per_second?: number | null;
};
