/** The lifecycle of a group from its stored timestamps. Pure. */

import type { GroupDetail, SequenceSummary } from "@/api/groups";

export type Span = SequenceSummary["spans"][number];
/** Values above this are Unix times; smaller ones are relative to the start of the sequence. */
export const LEAST_CLOCK_SECONDS = 1e8;
export type LifeEvent = { what: string; at: string; note: string; tone: "past" | "good" | "bad" | "held" };
export type Phase = { name: string; from: number; to: number; isOpen?: boolean };

const ms = (iso: string) => Date.parse(iso);
const iso = (seconds: number) => new Date(seconds * 1000).toISOString();

/** Start and end of the generation as Unix times; null if unknown. */
export function madeIn(sequences: SequenceSummary[]): { start: number; end: number } | null {
  const timed = sequences.flatMap(({ spans }) => spans).filter(({ start }) => start >= LEAST_CLOCK_SECONDS);
  if (timed.length === 0) return null;
  return timed.reduce((whole, { start, end }) => ({ start: Math.min(whole.start, start), end: Math.max(whole.end, end) }), {
    start: Infinity,
    end: 0,
  });
}

function ending({ group, batch }: GroupDetail): LifeEvent[] {
  const reason = group.drop_reason.replaceAll("_", " ");
  if (batch?.settled_at) {
    const isGood = batch.state === "confirmed";
    return [
      {
        what: isGood ? "Acknowledged" : "Dropped",
        at: batch.settled_at,
        note: isGood ? `served in train step ${batch.step}` : reason,
        tone: isGood ? "good" : "bad",
      },
    ];
  }
  return [];
}

/** The events of a group in order; events without a time are omitted. */
export function eventsOf(detail: GroupDetail, sequences: SequenceSummary[]): LifeEvent[] {
  const { group, batch, version } = detail;
  const made = madeIn(sequences);
  const found: LifeEvent[] = [];
  if (version)
    found.push({ what: "Weights published", at: version.published_at, note: `version ${version.epoch}.${version.step}`, tone: "past" });
  if (made)
    found.push(
      { what: "Generation started", at: iso(made.start), note: "reported by its environment", tone: "past" },
      { what: "Generation finished", at: iso(made.end), note: "", tone: "past" },
    );
  found.push({
    what: "Received and stored",
    at: group.received_at,
    note: group.has_bytes
      ? `by ${group.producer || "an unnamed producer"}`
      : `dropped on receipt: ${group.drop_reason.replaceAll("_", " ")}`,
    tone: group.has_bytes ? "past" : "bad",
  });
  if (batch) {
    const again =
      batch.lease_expiries > 0 ? `; ${batch.lease_expiries} earlier ${batch.lease_expiries > 1 ? "leases" : "lease"} expired` : "";
    found.push({
      what: `Leased${batch.trainer ? ` to ${batch.trainer}` : ""}`,
      at: batch.leased_at,
      note: `batch ${batch.step}${again}`,
      tone: "past",
    });
    if (batch.delivered_at) found.push({ what: "Delivered", at: batch.delivered_at, note: "last byte sent", tone: "past" });
  }
  return [...found, ...ending(detail)].sort((one, other) => ms(one.at) - ms(other.at));
}

/** The consecutive phases of the lifecycle in milliseconds; the current phase ends at `now`. */
export function phasesOf(detail: GroupDetail, sequences: SequenceSummary[], now: number): Phase[] {
  const { group, batch } = detail;
  const made = madeIn(sequences);
  const received = ms(group.received_at);
  const found: Phase[] = [];
  if (made)
    found.push({ name: "made", from: made.start * 1000, to: made.end * 1000 }, { name: "in transit", from: made.end * 1000, to: received });
  if (!batch) {
    const isWaiting = group.state === "queued" || group.state === "waiting";
    if (isWaiting) found.push({ name: "queued", from: received, to: now, isOpen: true });
  } else {
    const isOpen = batch.settled_at === null;
    found.push({ name: "queued", from: received, to: ms(batch.leased_at) });
    found.push({
      name: batch.state === "returned" || batch.state === "quarantined" ? "idle" : "leased",
      from: ms(batch.leased_at),
      to: batch.settled_at ? ms(batch.settled_at) : now,
      isOpen,
    });
  }
  return found.filter(({ from, to }) => to > from);
}

type Lane = { span: Span; lane: number };

/** Assign the spans of a sequence to the fewest lanes without overlap, ordered by start. */
export function lanesOf(spans: Span[]): Lane[] {
  const ends: number[] = [];
  return spans.map((span) => {
    const free = ends.findIndex((end) => end <= span.start);
    const lane = free < 0 ? ends.length : free;
    ends[lane] = span.end;
    return { span, lane };
  });
}

/** Span names, longest total time first; the index selects the colour. */
export function namesOf(sequences: SequenceSummary[]): { name: string; seconds: number }[] {
  const found = new Map<string, number>();
  for (const { spans } of sequences) for (const { name, start, end } of spans) found.set(name, (found.get(name) ?? 0) + end - start);
  return [...found]
    .map(([name, seconds]) => ({ name, seconds }))
    .sort((one, other) => other.seconds - one.seconds || one.name.localeCompare(other.name));
}
