/** How one chart shows its values, as the reader chose, and its text in links. Pure. */

import type { Column } from "@/charts/columns";

export type ChartLook = {
  isLog?: boolean;
  isLogX?: boolean;
  /** Whether the y axis covers the central 98 % of the values only. */
  isClipped?: boolean;
  /** Ends of the y axis. */
  low?: number;
  high?: number;
  isLarge?: boolean;
  /** The metric of the x axis; defaults to the axis of the page. */
  x?: string;
  /** Hidden legend entries. */
  hidden?: readonly string[];
};

const FLAGS = { log: "isLog", logx: "isLogX", clip: "isClipped", large: "isLarge" } as const;
const ENDS = { from: "low", to: "high" } as const;
const HIDDEN_AT_MOST = 50;
const OUTLIER_SHARE = 0.01;

/** The look as `log,clip,from:0,to:1,x:tokens,hide:max`, with encoded names; undefined for the default look. */
export function lookText(look: ChartLook): string | undefined {
  const flags = Object.entries(FLAGS).flatMap(([word, key]) => (look[key] ? [word] : []));
  const ends = Object.entries(ENDS).flatMap(([word, key]) => (look[key] === undefined ? [] : [`${word}:${look[key]}`]));
  const x = look.x ? [`x:${encodeURIComponent(look.x)}`] : [];
  const hidden = (look.hidden ?? []).map((entry) => `hide:${encodeURIComponent(entry)}`);
  return [...flags, ...ends, ...x, ...hidden].join(",") || undefined;
}

/** A name of a look's text; null if it is not encoded well. */
function decoded(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}

/** The look of a text; unknown parts are dropped. */
export function lookOf(text: unknown): ChartLook {
  const look: ChartLook = {};
  const hidden = new Set<string>();
  for (const part of typeof text === "string" ? text.split(",") : []) {
    const [word = "", end = ""] = part.split(":");
    const value = Number(end);
    const name = decoded(end);
    if (Object.hasOwn(FLAGS, word)) look[FLAGS[word as keyof typeof FLAGS]] = true;
    else if (Object.hasOwn(ENDS, word) && end !== "" && Number.isFinite(value)) look[ENDS[word as keyof typeof ENDS]] = value;
    else if (word === "x" && name) look.x = name;
    else if (word === "hide" && name && hidden.size < HIDDEN_AT_MOST) hidden.add(name);
  }
  return hidden.size > 0 ? { ...look, hidden: [...hidden] } : look;
}

/** The range of the central 98 % of the values; null without values. */
export function centralRange(columns: readonly Column[]): [number, number] | null {
  const values = columns.flatMap((column) =>
    column.filter((value): value is number => typeof value === "number" && Number.isFinite(value)),
  );
  values.sort((a, b) => a - b);
  const at = (share: number) => values[Math.round(share * (values.length - 1))];
  const [low, high] = [at(OUTLIER_SHARE), at(1 - OUTLIER_SHARE)];
  return low === undefined || high === undefined ? null : [low, high];
}

const GAP_SAMPLES = 12;
const GAP_SECONDS = 60;

/** Index pairs of neighbouring samples with much more time between them than usual: nothing was measured there. */
export function pauses(x: ArrayLike<number>, values: Column): [number, number][] {
  const known = values.flatMap((value, index) => (typeof value === "number" ? [index] : []));
  const steps = known.slice(1).map((index, i) => (x[index] ?? 0) - (x[known[i] ?? 0] ?? 0));
  const usual = [...steps].sort((a, b) => a - b)[Math.floor(steps.length / 2)] ?? 0;
  const longest = Math.max(GAP_SECONDS, GAP_SAMPLES * usual);
  return steps.flatMap((step, i): [number, number][] => (step > longest ? [[known[i] as number, known[i + 1] as number]] : []));
}
