/** Events of a run with time, author, reason and changed values, newest first. */

import { List } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { type ReactNode, useEffect, useRef } from "react";
import type { RunEvent } from "@/api/types";
import { Hint, LongText } from "@/components/inline";
import { ErrorState, Panel, Skeletons } from "@/components/panels";
import { ShowMore } from "@/components/Table";
import { moment, utc, visible } from "@/format";
import { useChangeFeed, useSeries } from "@/live/live";
import { eventsQuery } from "@/pages/run/logs/api";
import { NoDataYet } from "@/pages/run/NoDataYet";
import { useRun } from "@/pages/run/RunContext";
import css from "./logs.module.css";

const SIGNS = { info: ["·", ""], warning: ["▲", "held"], error: ["✕", "bad"] } as const;
const REREAD_MS = 3_000;

const words = (value: unknown): string => (value == null ? "none" : typeof value === "string" ? value || "empty" : JSON.stringify(value));

/** The values that an event changed, before and after. */
export function revisionsOf({ details }: Pick<RunEvent, "details">): { name: string; before: string; after: string }[] {
  return Object.entries(details).flatMap(([name, value]) => {
    const { before, after } = (value ?? {}) as { before?: unknown; after?: unknown };
    return before === undefined && after === undefined ? [] : [{ name, before: words(before), after: words(after) }];
  });
}

function EventLine({ event, isMarked }: { event: RunEvent; isMarked: boolean }) {
  const line = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (isMarked) line.current?.scrollIntoView({ block: "center" });
  }, [isMarked]);
  const [sign, tone] = SIGNS[event.level];
  const revisions = revisionsOf(event);
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
        {event.reason && <div className="soft small">“{visible(event.reason)}”</div>}
        {revisions.length > 0 && (
          <List size="sm">
            {revisions.map(({ name, before, after }) => (
              <List.Item key={name}>
                <span className="mono tiny">{name}</span> <del className="faint">{visible(before)}</del> → <b>{visible(after)}</b>
              </List.Item>
            ))}
          </List>
        )}
      </div>
    </li>
  );
}

type Props = {
  title?: string;
  className?: string;
  /** Newest first. */
  events: RunEvent[];
  /** A moment in ms since 1970; the last event before it is marked. */
  at?: number;
  children?: ReactNode;
};

/** A panel of given events. */
export function Events({ title = "Events", className = "span-12", events, at, children }: Props) {
  const marked = at === undefined ? undefined : events.find((event) => Date.parse(event.at) <= at);
  return (
    <Panel title={title} note="newest first" className={className}>
      {events.length === 0 ? (
        <NoDataYet title="No events yet">
          Starts, pauses, restarts and registrations are recorded here, such as that of a trainer.
        </NoDataYet>
      ) : (
        <ol className={css.events} tabIndex={0} aria-label={`${title}, newest first`}>
          {events.map((event) => (
            <EventLine key={event.id} event={event} isMarked={event === marked} />
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
