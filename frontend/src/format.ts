/** Format numbers, ages and times consistently on every screen. */

import { chosenZone } from "@/preferences";

const NOTHING = "–";

/** A number rounded to three significant digits: 6.98e-6, 0.0123, 4.57, 182, 12,400. */
export function number(value: number | null | undefined, digits = 3): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return NOTHING;
  const size = Math.abs(value);
  if (Number.isSafeInteger(value)) return withDecimals(value, 0);
  if (size < 1e-3 || size > Number.MAX_SAFE_INTEGER) return value.toExponential(digits - 1).replace(/\.?0*e/, "e");
  const magnitude = Math.floor(Math.log10(size));
  const decimals = Math.min(6, Math.max(0, digits - 1 - magnitude));
  return withDecimals(value, decimals);
}

// `toLocaleString` and its siblings take forty times as long: they read the locale's data at each call.
const FORMATS = Array.from({ length: 7 }, (_, maximumFractionDigits) => new Intl.NumberFormat("en-US", { maximumFractionDigits }));

const withDecimals = (value: number, decimals: number): string => (FORMATS[decimals] as Intl.NumberFormat).format(value);

/** A large count in short form: 950, 12.4 k, 3.1 M. */
export function count(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return NOTHING;
  const units: [number, string][] = [
    [1e9, "G"],
    [1e6, "M"],
    [1e4, "k"],
  ];
  for (const [size, letter] of units) {
    if (Math.abs(value) >= size) return `${number(value / (letter === "k" ? 1e3 : size))} ${letter}`;
  }
  return number(value);
}

/** A count with its noun: 1 worker, 12,400 workers, 2 batches. */
export function counted(
  value: number | null | undefined,
  noun: string,
  plural = `${noun}${/(ch|sh|s|x)$/.test(noun) ? "es" : "s"}`,
): string {
  return `${number(value)} ${value === 1 ? noun : plural}`;
}

/** A unit that is given in the plural, such as one of the API, for a count: 1 fragment, 12 fragments. */
export const unitFor = (value: number | null | undefined, units: string): string =>
  value === 1 && !units.includes("/") ? units.replace(/(ch|sh|s|x)es$|s$/, "$1") : units;

/** A count with such a unit. */
export const inUnit = (value: number | null | undefined, units: string): string => `${number(value)} ${unitFor(value, units)}`;

/** Bytes in a suitable unit: 512 B, 1.4 GB. */
export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return NOTHING;
  const units = ["B", "kB", "MB", "GB", "TB"];
  const power = value < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log10(value) / 3));
  return `${number(value / 1000 ** power)} ${units[power]}`;
}

/** A fraction in percent: 0.714 is 71 %. */
export function percent(part: number | null | undefined): string {
  if (part === null || part === undefined || !Number.isFinite(part)) return NOTHING;
  return `${Math.round(100 * part)} %`;
}

/** A small fraction in percent, to three digits: 0.00714 is 0.714 %. */
export function finePercent(part: number | null | undefined): string {
  if (part === null || part === undefined || !Number.isFinite(part)) return NOTHING;
  return `${number(100 * part)} %`;
}

/** Seconds in a suitable unit: 0.4 s, 12 s, 3 min, 2 h 05, 4 d. */
export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return NOTHING;
  const whole = Math.max(0, seconds);
  if (whole < 1) return `${whole.toFixed(1)} s`;
  if (whole < 60) return `${Math.floor(whole)} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min`;
  if (whole < 86_400) {
    const minutes = Math.floor((whole % 3600) / 60);
    return `${Math.floor(whole / 3600)} h ${String(minutes).padStart(2, "0")}`;
  }
  return `${Math.floor(whole / 86_400)} d`;
}

/** A duration to three digits: < 1 ms, 250 ms, 1.23 s, 3.5 min. */
export function preciseDuration(seconds: number): string {
  if (seconds < 0.001) return "< 1 ms";
  if (seconds < 1) return `${number(seconds * 1000)} ms`;
  if (seconds < 120) return `${number(seconds)} s`;
  if (seconds < 7200) return `${number(seconds / 60)} min`;
  return seconds < 172_800 ? `${number(seconds / 3600)} h` : `${number(seconds / 86_400)} d`;
}

const two = (value: number) => String(value).padStart(2, "0");

/** Seconds since a start, to the second: 0:07, 12:30, 2:05:00, 3 d 04:00:00; negative before it. */
export function elapsed(seconds: number): string {
  const sign = seconds < 0 ? "−" : "";
  const whole = Math.abs(seconds);
  if (whole < 10 && !Number.isInteger(whole)) return `${sign}${number(whole)} s`;
  const [days, hours] = [Math.floor(whole / 86_400), Math.floor((whole % 86_400) / 3600)];
  const rest = `${two(Math.floor((whole % 3600) / 60))}:${two(Math.floor(whole % 60))}`;
  if (days > 0) return `${sign}${days} d ${two(hours)}:${rest}`;
  return `${sign}${hours > 0 ? `${hours}:${rest}` : rest.replace(/^0/, "")}`;
}

/** Seconds between the ISO time and `nowMs`; null for a missing or invalid time. */
export function ageSeconds(iso: string | null | undefined, nowMs: number): number | null {
  if (!iso) return null;
  const at = Date.parse(iso);
  return Number.isNaN(at) ? null : Math.max(0, (nowMs - at) / 1000);
}

/** The user's time zone; undefined for the browser's. */
export const timeZone = (): string | undefined => (chosenZone() === "utc" ? "UTC" : undefined);

/** A time as ISO text or in Unix milliseconds. */
export type Time = string | number | null | undefined;

function dateOf(time: Time): Date | null {
  const at = time === null || time === undefined || time === "" ? null : new Date(time);
  return at && !Number.isNaN(at.getTime()) ? at : null;
}

const DATE = { year: "numeric", month: "2-digit", day: "2-digit" } as const;
export const DAY = { month: "short", day: "numeric" } as const;
export const MINUTE = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" } as const;
export const SECOND = { ...MINUTE, second: "2-digit" } as const;
const DAY_AND_MINUTE = { ...DAY, ...MINUTE } as const;

const DATE_FORMATS = new Map<string, Intl.DateTimeFormat>();

/** A date in parts and in a time zone; the browser's without one. */
export function dateText(at: Date, parts: Intl.DateTimeFormatOptions, zone = timeZone()): string {
  const key = `${zone}${Object.keys(parts)}`;
  const format = DATE_FORMATS.get(key) ?? new Intl.DateTimeFormat("en-US", { ...parts, timeZone: zone });
  DATE_FORMATS.set(key, format);
  return format.format(at);
}

/** The time in the user's time zone, with seconds. */
export function clock(time: Time): string {
  const at = dateOf(time);
  return at ? dateText(at, SECOND) : NOTHING;
}

/** The date and time in the user's time zone, to the minute. */
export function dayAndClock(time: Time): string {
  const at = dateOf(time);
  return at ? dateText(at, DAY_AND_MINUTE) : NOTHING;
}

/** The time to the second if it is today, else with its date to the minute; in the user's time zone. */
export function moment(time: Time, now = new Date()): string {
  const at = dateOf(time);
  return at && dateText(at, DATE) === dateText(now, DATE) ? clock(time) : dayAndClock(time);
}

/** The time in UTC, for tooltips. */
export function utc(time: Time): string {
  const at = dateOf(time);
  return at ? `${at.toISOString().slice(0, 19).replace("T", " ")} UTC` : "unknown time";
}

/** The short name in an id of a worker or env slot: `w1` of `w1@1-a12c82c7-71b0d9`. */
export function shortId(id: string): string {
  return id.split("@", 1)[0] || id;
}

/** A policy step; the two values before the first train step have names. */
export function policyStep(step: number | null | undefined): string {
  if (step === null || step === undefined || step === -2) return "none yet";
  return step === -1 ? "bootstrap" : number(step);
}

/** A policy version: the epoch, and its step in it. */
export function versionName(epoch: number | null, step: number | null | undefined): string {
  const name = policyStep(step);
  return name === "none yet" ? name : `${epoch}.${name}`;
}

// Controls, soft hyphens, direction marks, zero width, line separators, fillers, tags, variation selectors (except
// in emoji), joiners (except in emoji and in scripts that need them), unpaired surrogates.
const UNSEEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb\u{e0000}-\u{e01ef}\ud800-\udfff]|(?<!\p{Extended_Pictographic})\ufe0f|(?<![\p{Extended_Pictographic}\p{Emoji_Modifier}\ufe0f\p{scx=Arab}\p{scx=Beng}\p{scx=Deva}\p{scx=Gujr}\p{scx=Guru}\p{scx=Knda}\p{scx=Mlym}\p{scx=Orya}\p{scx=Sinh}\p{scx=Taml}\p{scx=Telu}])[\u200c\u200d]/gu;

const codeOf = (character: string): string => (character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0");

/** Untrusted text with invisible and control characters written out as ⟨U+202E⟩; tabs and line ends stay. */
export function visible(text: string): string {
  return text.replace(UNSEEN, (character) => `\u27e8U+${codeOf(character)}\u27e9`);
}
