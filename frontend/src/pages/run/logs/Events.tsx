import { Tooltip } from "@mantine/core";
import { useMemo, useState } from "react";
import type { RunEvent } from "@/api/types";
import { EmptyState } from "@/components/EmptyState";
import { Panel } from "@/components/Panel";
import { clock, utc, visible } from "@/format";
import { type Folded, fold } from "@/pages/run/logs/folding";

const SIGNS = { info: "·", warning: "▲", error: "✕" } as const;
const SHOWN = 60;

function EventLine({ event, times, firstAt }: Folded) {
  return (
    <li data-event={event.kind}>
      <Tooltip label={utc(event.at)}>
        <time className="faint small" dateTime={event.at}>
          {clock(event.at)}
        </time>
      </Tooltip>
      <span className={`level-${event.level}`} aria-label={event.level} role="img">
        {SIGNS[event.level] ?? "·"}
      </span>
      <span className="anywhere">
        {visible(event.message)} <span className="faint small">{visible(event.actor)}</span>
        {times > 1 && (
          <span className="faint small">
            {" "}
            · {times} times since {clock(firstAt)}
          </span>
        )}
        {event.reason && <span className="soft small reason">“{visible(event.reason)}”</span>}
      </span>
    </li>
  );
}

/** What happened: who, when, why; newest first. */
export function Events({ events }: { events: RunEvent[] }) {
  const [all, setAll] = useState(false);
  const folded = useMemo(() => fold(events), [events]);
  return (
    <Panel title="Events" note={events.length > 0 ? "newest first" : undefined} className="span-12">
      {events.length === 0 ? (
        <EmptyState title="Nothing has happened yet">
          Every start, pause, restart and registration is written down here.
        </EmptyState>
      ) : (
        <ol className="events" tabIndex={0} aria-label="Events, newest first">
          {folded.slice(0, all ? undefined : SHOWN).map((each) => (
            <EventLine key={each.firstAt + each.event.kind} {...each} />
          ))}
          {folded.length > SHOWN && !all && (
            <li>
              <button type="button" className="more" onClick={() => setAll(true)}>
                Show all {folded.length}
              </button>
            </li>
          )}
        </ol>
      )}
    </Panel>
  );
}
