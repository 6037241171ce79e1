import { Button } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { TAKES_OPERATOR, useMayOperate } from "@/api/session";
import type { RunDetail, RunEvent } from "@/api/types";
import { Age } from "@/components/Age";
import { ErrorState } from "@/components/ErrorState";
import { Panel } from "@/components/Panel";
import { ShowMore } from "@/components/ShowMore";
import { Skeletons } from "@/components/Skeletons";
import { visible } from "@/format";
import { useChangeFeed } from "@/live/changeFeed";
import { useSeries } from "@/live/live";
import css from "@/pages/run/config/config.module.css";
import { RestoreDialog } from "@/pages/run/config/RestoreDialog";
import { backTo, revisionOf } from "@/pages/run/config/revisions";
import { changesQuery, EVERY_MS } from "@/pages/run/weights/api";
import { isOver } from "@/theme/chips";

const KINDS = [
  ...["created", "status", "settings_changed", "environment_changed", "archived", "epoch_opened"],
  ...["batch_released", "batch_discarded", "trainer_registered", "environment_registered", "fleet_launched", "tokenizer_set"],
];

/** Settings apply only until the run has ended; an ended run cannot restore them. */
function Restore({ run, events, place }: { run: RunDetail; events: RunEvent[]; place: number }) {
  const mayOperate = useMayOperate();
  const [isOpen, setOpen] = useState(false);
  const back = isOver(run.status) ? null : backTo(events, place);
  if (!back) return null;
  return (
    <>
      <Button
        mt={4}
        size="compact-xs"
        variant="default"
        disabled={!mayOperate}
        title={mayOperate ? "Restore all settings to their values after this change" : TAKES_OPERATOR}
        onClick={() => setOpen(true)}
      >
        Restore these settings…
      </Button>
      {isOpen && <RestoreDialog run={run} back={back} onClose={() => setOpen(false)} />}
    </>
  );
}

/** Events after which the settings form a restorable state. */
const RESTORED = new Set(["created", "settings_changed"]);

function Entry({ event, children }: { event: RunEvent; children: ReactNode }) {
  const revisions = revisionOf(event);
  return (
    <li data-change={event.kind}>
      <div className={css.changeHead}>
        <b className="anywhere">{visible(event.message)}</b>
        <span className="faint small nowrap">
          <Age at={event.at} suffix=" ago" />
        </span>
      </div>
      <div className="small soft anywhere">
        {visible(event.actor)}
        {event.reason && <span> “{visible(event.reason)}”</span>}
      </div>
      {revisions.length > 0 && (
        <ul className={`${css.revisions} small`}>
          {revisions.map(({ name, before, after }) => (
            <li key={name} className="anywhere">
              <span className="mono tiny">{name}</span> <del className="faint">{visible(before)}</del> → <b>{visible(after)}</b>
            </li>
          ))}
        </ul>
      )}
      {children}
      {event.request_id && <div className="faint tiny mono anywhere">request {visible(event.request_id)}</div>}
    </li>
  );
}

/** All state and settings changes of the run, newest first. */
export function ChangeHistory({ run }: { run: RunDetail }) {
  const refetchInterval = useChangeFeed(useSeries(`run:${run.name}`, "events").at(-1)?.id, EVERY_MS, ["changes", run.name]);
  const changes = useInfiniteQuery({ ...changesQuery(run.name, KINDS), refetchInterval });
  const { data, error } = changes;
  const events = data?.pages.flatMap((page) => page.results) ?? [];
  return (
    <Panel title="Changes" note="author, time and reason; newest first" className="span-6">
      {error && <ErrorState title="Changes unavailable" error={error} />}
      {!data && !error && <Skeletons heights={[240]} />}
      {data && (
        <ol className={css.changeList} aria-label="Changes, newest first">
          {events.map((event, place) => (
            <Entry key={event.id} event={event}>
              {RESTORED.has(event.kind) && <Restore run={run} events={events} place={place} />}
            </Entry>
          ))}
        </ol>
      )}
      <ShowMore pages={changes} words="Show older changes" />
    </Panel>
  );
}
