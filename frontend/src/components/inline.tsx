/** Parts of a line of text: hints, times, links, long texts and sparklines. */

import { Kbd } from "@mantine/core";
import { useTimeout } from "@mantine/hooks";
import { useNavigate } from "@tanstack/react-router";
import {
  type ComponentProps,
  cloneElement,
  type FocusEvent,
  type MouseEvent,
  type PointerEvent,
  type ReactElement,
  type ReactNode,
  useId,
  useRef,
  useState,
  useSyncExternalStore,
} from "react";
import { shareOf } from "@/charts/scale";
import { onDemand } from "@/components/onDemand";
import { TextButton } from "@/components/panels";
import { ageSeconds, duration, moment, number, utc, visible } from "@/format";
import { live } from "@/live/live";

const HintBox = onDemand(() => import("@/components/HintBox"), "HintBox");
const HOVER_MS = 200;

type Pointed = (event: PointerEvent<HTMLElement>) => void;
type Focused = (event: FocusEvent<HTMLElement>) => void;
type Target = { "aria-describedby"?: string; onPointerEnter?: Pointed; onPointerLeave?: Pointed; onFocus?: Focused; onBlur?: Focused };

/** A tooltip of one element, shown by pointer, touch or keyboard focus. Its code is loaded when it is first shown. */
export function Hint({ label, children }: { label: ReactNode; children: ReactElement<Target> }) {
  const [target, setTarget] = useState<HTMLElement | null>(null);
  const [isOpen, setOpen] = useState(false);
  const isTouched = useRef(false);
  const hover = useTimeout(() => setOpen(true), HOVER_MS);
  const id = useId();
  const close = () => {
    hover.clear();
    setOpen(false);
  };
  return (
    <>
      {cloneElement(children, {
        ...(isOpen ? { "aria-describedby": id } : {}),
        onPointerEnter: (event) => {
          isTouched.current = event.pointerType === "touch";
          setTarget(event.currentTarget);
          hover.start();
        },
        onPointerLeave: close,
        onFocus: (event) => {
          if (!isTouched.current && !event.target.matches(":focus-visible")) return;
          setTarget(event.currentTarget);
          setOpen(true);
        },
        onBlur: close,
      })}
      {target && <HintBox id={id} target={target} label={label} isOpen={isOpen} onDismiss={close} />}
    </>
  );
}

/** A keyboard shortcut; hidden on small screens. */
export function KeyHint({ children }: { children: string }) {
  return (
    <Kbd size="xs" className="mantine-visible-from-sm">
      {children}
    </Kbd>
  );
}

const RESOLUTION_MS = 1_000;
const listeners = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | undefined;
let now = Date.now();

function beat(): void {
  now = live.serverNow();
  for (const listener of listeners) listener();
}

function watch(listener: () => void): () => void {
  listeners.add(listener);
  timer ??= setInterval(beat, RESOLUTION_MS);
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) {
      clearInterval(timer);
      timer = undefined;
    }
  };
}

function read(): number {
  // Without a timer there are no subscribers and the value may be stale.
  const current = live.serverNow();
  if (timer === undefined && Math.abs(current - now) >= RESOLUTION_MS) now = current;
  return now;
}

/** The server's time in milliseconds, at a resolution of one second. */
export function useNow(): number {
  return useSyncExternalStore(watch, read);
}

/** The age of a timestamp, updated every second; the exact time in a tooltip. */
export function Age({ at, suffix = "" }: { at: string | null | undefined; suffix?: string }) {
  const now = useNow();
  return (
    <Hint label={utc(at)}>
      <time dateTime={at ?? undefined}>
        {duration(ageSeconds(at, now))}
        {at ? suffix : ""}
      </time>
    </Hint>
  );
}

/** A time in the user's time zone, with the date if it is not today; UTC in a tooltip. */
export function Moment({ at }: { at: string | null | undefined }) {
  return (
    <Hint label={utc(at)}>
      <time dateTime={at ?? undefined} className="nowrap">
        {moment(at)}
      </time>
    </Hint>
  );
}

type Props = Omit<ComponentProps<"a">, "href" | "onClick"> & { to: string };

/** A link to a dashboard URL that was built at run time, including its search parameters. */
export function AppLink({ to, ...rest }: Props) {
  const navigate = useNavigate();
  const go = (event: MouseEvent) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    void navigate({ href: to });
  };
  return <a {...rest} href={to} onClick={go} />;
}

const MAX_LENGTH = 400;
/** A shorter remainder is not worth expanding. */
const MIN_REMAINDER = 200;

/** The text, truncated if it is much longer than the limit; never splits a surrogate pair. */
export function truncate(text: string): string {
  if (text.length <= MAX_LENGTH + MIN_REMAINDER) return text;
  return text.slice(0, MAX_LENGTH).replace(/[\uD800-\uDBFF]$/, "");
}

/** Long untrusted text, truncated until expanded. */
export function LongText({ text }: { text: string }) {
  const [isWhole, setWhole] = useState(false);
  const words = visible(text);
  const truncated = truncate(words);
  if (isWhole || truncated === words) return words;
  return (
    <>
      {truncated}…{" "}
      <TextButton className="small" onClick={() => setWhole(true)}>
        Show all {number(words.length)} characters
      </TextButton>
    </>
  );
}

const WIDTH = 72;
const HEIGHT = 20;
const MARGIN = 2;

/** A sparkline without axes: it shows the trend, not the magnitude. */
export function Spark({ values, label }: { values: number[]; label: string }) {
  if (values.length < 2) return <span className="faint">–</span>;
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const points = values.map((value, i) => {
    const x = MARGIN + (i / (values.length - 1)) * (WIDTH - 2 * MARGIN);
    const y = HEIGHT - MARGIN - (high > low ? shareOf(value, low, high) : 0) * (HEIGHT - 2 * MARGIN);
    return `${x.toFixed(1)},${y.toFixed(1)}`;
  });
  return (
    <svg width={WIDTH} height={HEIGHT} role="img" aria-label={label}>
      <polyline points={points.join(" ")} fill="none" stroke="var(--chart-1)" strokeWidth="1.5" strokeLinejoin="round" />
    </svg>
  );
}
