/** Aliases for the types of the API and the live topics, generated from the server's schema. */

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
export type RecordingRow = Schemas["RecordingRow"];
export type EpisodeRow = Schemas["EpisodeRow"];
export type LessonRow = Schemas["LessonRow"];
export type LessonChange = Schemas["LessonChangeRow"];
export type LessonPass = Schemas["LessonPass"];
export type LessonProblem = Schemas["LessonProblemRow"];
export type EvaluationRow = Schemas["EvaluationRow"];
export type CurriculumPart = Schemas["CurriculumSummary"];
export type LedgerPart = Schemas["LedgerPart"];
export type LedgerAnswer = Schemas["LedgerAnswer"];
export type LedgerCounts = Schemas["KindLedger"];
export type Session = Schemas["Session"];
export type RunCheck = Schemas["RunCheck"];
export type QueueAnswer = Schemas["QueueAnswer"];
export type PreviewAnswer = Schemas["PreviewAnswer"];
export type BatchRow = Schemas["BatchRow"];
export type BatchItems = Schemas["BatchItems"];
export type EnvironmentRow = Schemas["EnvironmentRow"];
export type EnvironmentPushRate = Schemas["EnvironmentPushRate"];
export type EnvironmentMixing = Schemas["EnvironmentMixing"];
export type PolicyVersionRow = Schemas["PolicyVersionRow"];
export type WeightsCommands = Schemas["WeightsCommands"];
export type WeightsProgress = Schemas["WeightsProgress"];
export type NewestTrajectories = Schemas["NewestTrajectories"];
export type WeightSyncRow = Schemas["WeightSyncRow"];
export type Preset = Schemas["Preset"];
export type MetricLine = Schemas["MetricLine"];
export type MetricAxis = "step" | "time" | "elapsed" | "amount";

/** A run of the live list; with its fleet's last heartbeat while it is active. */
export type RunRow = Schemas["LiveRunRow"] & { observed_at?: string | null };

type QueueDepth = Schemas["QueueDepth"];
type Polled = "queued" | "waiting" | "leased" | "threshold" | "batch_size" | "served_steps";
/** The queue; the polled subset while the socket is down. */
export type QueuePart = Pick<QueueDepth, Polled> & Partial<QueueDepth>;
