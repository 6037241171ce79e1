import { useEffect, useMemo, useRef, useState } from "react";
import type { RunEvent } from "@/api/types";
import { Hint, LongText } from "@/components/inline";
import { EmptyState, Panel, TextButton } from "@/components/panels";
import { clock, utc, visible } from "@/format";
import { type Folded, fold } from "@/pages/run/logs/folding";
import { useRun } from "@/pages/run/RunContext";
import runCss from "@/pages/run/run.module.css";
import { trainerCommand } from "@/runs/words";

const SIGNS = { info: "·", warning: "▲", error: "✕" } as const;
const SHOWN = 60;

function EventLine({ event, times, firstAt, isMarked }: Folded & { isMarked: boolean }) {
  const line = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (isMarked) line.current?.scrollIntoView({ block: "center" });
  }, [isMarked]);
  return (
    <li ref={line} data-event={event.kind} data-marked={isMarked || undefined}>
      <Hint label={utc(event.at)}>
        <time className="faint small" dateTime={event.at}>
          {clock(event.at)}
        </time>
      </Hint>
      <span className={runCss[`level-${event.level}`]} aria-label={event.level} role="img">
        {SIGNS[event.level] ?? "·"}
      </span>
      <span className="anywhere">
        <LongText text={event.message} /> <span className="faint small">{visible(event.actor)}</span>
        {times > 1 && (
          <span className="faint small">
            {" "}
            · {times} times since {clock(firstAt)}
          </span>
        )}
        {event.reason && <span className={`soft small ${runCss.reason}`}>“{visible(event.reason)}”</span>}
      </span>
    </li>
  );
}

/** A linked moment, with a link back to the newest events. */
function Moment({ at, isFound, onLeave }: { at: number; isFound: boolean; onLeave?: () => void }) {
  return (
    <p className="small soft" role="status">
      {isFound ? "Marked: the last event at" : "No event known before"} {clock(at)}. Logs open at this time as well.{" "}
      {onLeave && (
        <TextButton className={runCss.more} onClick={onLeave}>
          Clear
        </TextButton>
      )}
    </p>
  );
}

type Props = {
  events: RunEvent[];
  /** The linked moment, in ms since 1970. */
  at?: number;
  onLeave?: () => void;
};

/** Events with author, time and reason; newest first. */
export function Events({ events, at, onLeave }: Props) {
  const { run } = useRun();
  const [isLong, setLong] = useState(false);
  const folded = useMemo(() => fold(events), [events]);
  const marked = at === undefined ? -1 : folded.findIndex(({ firstAt }) => Date.parse(firstAt) <= at);
  const all = isLong || marked >= SHOWN;
  return (
    <Panel title="Events" note={events.length > 0 ? "newest first" : undefined}>
      {at !== undefined && events.length > 0 && <Moment at={at} isFound={marked >= 0} onLeave={onLeave} />}
      {events.length === 0 ? (
        <EmptyState title="No events yet" command={trainerCommand(run, location.origin)} needs={{ scope: "trainer", run: run.name }}>
          Starts, pauses, restarts and registrations are recorded here, such as that of a trainer.
        </EmptyState>
      ) : (
        <ol className={runCss.events} tabIndex={0} aria-label="Events, newest first">
          {folded.slice(0, all ? undefined : SHOWN).map((each, place) => (
            <EventLine key={each.firstAt + each.event.kind} {...each} isMarked={place === marked} />
          ))}
          {folded.length > SHOWN && !all && (
            <li>
              <TextButton className={runCss.more} onClick={() => setLong(true)}>
                Show all {folded.length}
              </TextButton>
            </li>
          )}
        </ol>
      )}
    </Panel>
  );
}
