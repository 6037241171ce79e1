/** Events of a run with time, author and reason, newest first. */

import { useInfiniteQuery } from "@tanstack/react-query";
import { type ReactNode, useEffect, useMemo, useRef } from "react";
import type { RunEvent } from "@/api/types";
import { Hint, LongText } from "@/components/inline";
import { type Columns, ErrorState, Panel, Skeletons } from "@/components/panels";
import { ShowMore } from "@/components/Table";
import { moment, utc, visible } from "@/format";
import { useChangeFeed, useSeries } from "@/live/live";
import { eventsQuery } from "@/pages/run/logs/api";
import { NoDataYet } from "@/pages/run/NoDataYet";
import { useRun } from "@/pages/run/RunContext";
import css from "./logs.module.css";

const SIGNS = { info: ["·", ""], warning: ["▲", "held"], error: ["✕", "bad"] } as const;
const REREAD_MS = 3_000;

/** Adjacent events as one, the newest, with their number and the time of the first. */
type Folded = { event: RunEvent; times: number; firstAt: string };

const shapeOf = ({ kind, actor, message }: RunEvent) => `${kind} ${actor} ${message.replace(/\d+/g, "")}`;

/** Combine adjacent events that differ in numbers only and need no attention, so that rare ones stay visible. */
export function fold(events: RunEvent[]): Folded[] {
  const folded: Folded[] = [];
  for (const event of events) {
    const last = folded.at(-1);
    const isQuiet = last && [last.event, event].every(({ level, reason }) => level === "info" && !reason);
    if (isQuiet && shapeOf(last.event) === shapeOf(event))
      folded[folded.length - 1] = { ...last, times: last.times + 1, firstAt: event.at };
    else folded.push({ event, times: 1, firstAt: event.at });
  }
  return folded;
}

function EventLine({ event, times, firstAt, isMarked }: Folded & { isMarked: boolean }) {
  const line = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (isMarked) line.current?.scrollIntoView({ block: "center" });
  }, [isMarked]);
  const [sign, tone] = SIGNS[event.level];
  return (
    <li ref={line} data-event={event.kind} data-marked={isMarked || undefined}>
      <Hint label={utc(event.at)}>
        <time className="faint small" dateTime={event.at}>
          {moment(event.at)}
        </time>
      </Hint>
      <span className={tone} aria-label={event.level} role="img">
        {sign}
      </span>
      <div className="anywhere">
        <LongText text={event.message} /> <span className="faint small">{visible(event.actor)}</span>
        {times > 1 && <span className="faint small">{` · ${times} times since ${moment(firstAt)}`}</span>}
        {event.reason && <div className="soft small">“{visible(event.reason)}”</div>}
      </div>
    </li>
  );
}

type Props = {
  title?: string;
  columns?: Columns;
  /** Newest first. */
  events: RunEvent[];
  /** A moment in ms since 1970; the last event before it is marked. */
  at?: number;
  children?: ReactNode;
};

/** A panel of given events. */
export function Events({ title = "Events", columns, events, at, children }: Props) {
  const folded = useMemo(() => fold(events), [events]);
  const marked = at === undefined ? undefined : folded.find(({ firstAt }) => Date.parse(firstAt) <= at);
  return (
    <Panel title={title} note="newest first" columns={columns}>
      {events.length === 0 ? (
        <NoDataYet title="No events yet">
          Starts, pauses, restarts and registrations are recorded here, such as that of a trainer.
        </NoDataYet>
      ) : (
        <ol className={css.events} tabIndex={0} aria-label={`${title}, newest first`}>
          {folded.map((each) => (
            <EventLine key={each.event.id} {...each} isMarked={each === marked} />
          ))}
        </ol>
      )}
      {children}
    </Panel>
  );
}

/** All events of the open run, or those of some kinds, in pages. */
export function History({ kinds, ...rest }: Omit<Props, "events" | "children"> & { kinds?: string }) {
  const { name } = useRun().run;
  const refetchInterval = useChangeFeed(useSeries(`run:${name}`, "events").at(-1)?.id, REREAD_MS, ["events", name]);
  const pages = useInfiniteQuery({ ...eventsQuery(name, kinds), refetchInterval });
  if (pages.error) return <ErrorState title="Events unavailable" error={pages.error} />;
  if (!pages.data) return <Skeletons heights={[240]} />;
  return (
    <Events {...rest} events={pages.data.pages.flatMap(({ results }) => results)}>
      <ShowMore pages={pages} words="Show older events" />
    </Events>
  );
}
