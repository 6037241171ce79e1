/** Durations of silences. Pure. */

export const LENGTHS = [
  { value: "1", label: "1 hour" },
  { value: "4", label: "4 hours" },
  { value: "24", label: "1 day" },
  { value: "168", label: "7 days" },
  { value: "720", label: "30 days" },
  { value: "until", label: "Until…" },
] as const;

const HOUR_MS = 3_600_000;

/** The end of a silence: a number of hours from now, or a local date and time; null if invalid. */
export function endOf(length: string, until: string, nowMs: number): string | null {
  const at = length === "until" ? Date.parse(until) : nowMs + Number(length) * HOUR_MS;
  return Number.isFinite(at) && at > nowMs ? new Date(at).toISOString() : null;
}
