/** Say what became of a group and when, from what the deck has kept. Pure. */

import type { GroupDetail, SequenceSummary } from "@/api/groups";

export type Span = SequenceSummary["spans"][number];
/** Seconds since 1970 are above this; smaller times count from a sequence's own beginning. */
export const LEAST_CLOCK_SECONDS = 1e8;
export type Moment = { what: string; at: string; note: string; tone: "past" | "good" | "bad" | "held" };
export type Stretch = { name: string; from: number; to: number; isOpen?: boolean };

const ms = (iso: string) => Date.parse(iso);
const iso = (seconds: number) => new Date(seconds * 1000).toISOString();

/** From when to when its sequences were made, in seconds since 1970; null where nobody told. */
export function madeIn(sequences: SequenceSummary[]): { start: number; end: number } | null {
  const told = sequences.flatMap(({ spans }) => spans).filter(({ start }) => start >= LEAST_CLOCK_SECONDS);
  if (told.length === 0) return null;
  return told.reduce((whole, { start, end }) => ({ start: Math.min(whole.start, start), end: Math.max(whole.end, end) }), {
    start: Infinity,
    end: 0,
  });
}

function ending({ group, batch }: GroupDetail): Moment[] {
  const reason = group.drop_reason.replaceAll("_", " ");
  if (batch?.settled_at) {
    const isGood = batch.state === "confirmed";
    return [
      {
        what: isGood ? "Confirmed" : "Dropped",
        at: batch.settled_at,
        note: isGood ? `served in train step ${batch.step}` : reason,
        tone: isGood ? "good" : "bad",
      },
    ];
  }
  return [];
}

/** What happened to a group, in order; of what has no time nothing is said here. */
export function momentsOf(detail: GroupDetail, sequences: SequenceSummary[]): Moment[] {
  const { group, batch, version } = detail;
  const made = madeIn(sequences);
  const found: Moment[] = [];
  if (version)
    found.push({ what: "Weights published", at: version.published_at, note: `version ${version.epoch}.${version.step}`, tone: "past" });
  if (made)
    found.push(
      { what: "Generation began", at: iso(made.start), note: "as its environment tells", tone: "past" },
      { what: "Last part made", at: iso(made.end), note: "", tone: "past" },
    );
  found.push({
    what: "Pushed and stored",
    at: group.received_at,
    note: group.has_bytes ? `by ${group.producer || "somebody unnamed"}` : `dropped at once: ${group.drop_reason.replaceAll("_", " ")}`,
    tone: group.has_bytes ? "past" : "bad",
  });
  if (batch) {
    const again = batch.lapses > 0 ? `; ${batch.lapses} earlier ${batch.lapses > 1 ? "leases" : "lease"} ran out` : "";
    found.push({
      what: `Leased${batch.trainer ? ` to ${batch.trainer}` : ""}`,
      at: batch.leased_at,
      note: `batch ${batch.step}${again}`,
      tone: "past",
    });
    if (batch.delivered_at) found.push({ what: "Delivered", at: batch.delivered_at, note: "its last byte had left", tone: "past" });
  }
  return [...found, ...ending(detail)].sort((one, other) => ms(one.at) - ms(other.at));
}

/** What is still to come, or has no time; empty of a group whose last moment is known. */
export function standing({ group, batch }: GroupDetail): string {
  if (batch?.settled_at) return "";
  if (batch?.state === "leased") return "Its trainer has not confirmed it yet.";
  if (batch?.state === "returned") return "Its lease ran out or was given back; the batch waits for the next trainer.";
  if (batch?.state === "quarantined") return "Its batch is in quarantine: somebody has to decide.";
  if (group.state === "dropped")
    return group.has_bytes ? `It was dropped: ${group.drop_reason.replaceAll("_", " ")}. When is not kept.` : "";
  return group.state === "waiting"
    ? "It waits until enough of its environment is there for a batch."
    : "It waits in the queue for a trainer.";
}

/** The parts of its life one behind the other, in milliseconds; what goes on ends at `now`. */
export function stretchesOf(detail: GroupDetail, sequences: SequenceSummary[], now: number): Stretch[] {
  const { group, batch } = detail;
  const made = madeIn(sequences);
  const received = ms(group.received_at);
  const found: Stretch[] = [];
  if (made)
    found.push({ name: "made", from: made.start * 1000, to: made.end * 1000 }, { name: "on its way", from: made.end * 1000, to: received });
  if (!batch) {
    const isWaiting = group.state === "queued" || group.state === "waiting";
    if (isWaiting) found.push({ name: "in the queue", from: received, to: now, isOpen: true });
  } else {
    const isOpen = batch.settled_at === null;
    found.push({ name: "in the queue", from: received, to: ms(batch.leased_at) });
    found.push({
      name: batch.state === "returned" || batch.state === "quarantined" ? "left alone" : "with its trainer",
      from: ms(batch.leased_at),
      to: batch.settled_at ? ms(batch.settled_at) : now,
      isOpen,
    });
  }
  return found.filter(({ from, to }) => to > from);
}

type Lane = { span: Span; lane: number };

/** Spans of a sequence on as few lanes as keep them apart, in order of their start. */
export function lanesOf(spans: Span[]): Lane[] {
  const ends: number[] = [];
  return spans.map((span) => {
    const free = ends.findIndex((end) => end <= span.start);
    const lane = free < 0 ? ends.length : free;
    ends[lane] = span.end;
    return { span, lane };
  });
}

/** Names of spans, those that take most time first: their place is their colour. */
export function namesOf(sequences: SequenceSummary[]): { name: string; seconds: number }[] {
  const found = new Map<string, number>();
  for (const { spans } of sequences) for (const { name, start, end } of spans) found.set(name, (found.get(name) ?? 0) + end - start);
  return [...found]
    .map(([name, seconds]) => ({ name, seconds }))
    .sort((one, other) => other.seconds - one.seconds || one.name.localeCompare(other.name));
}
