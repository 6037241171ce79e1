import { Button } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { changesQuery } from "@/api/weights";
import type { RunDetail, RunEvent } from "@/api/types";
import { Age } from "@/components/Age";
import { ErrorState } from "@/components/ErrorState";
import { Panel } from "@/components/Panel";
import { Skeletons } from "@/components/Skeletons";
import { visible } from "@/format";
import { revisionOf } from "@/pages/run/config/revisions";

const KINDS = [
  ...["created", "status", "settings_changed", "environment_changed", "archived", "epoch_opened"],
  ...["batch_released", "batch_discarded", "trainer_registered", "environment_registered", "fleet_launched"],
];

function Entry({ event }: { event: RunEvent }) {
  const revisions = revisionOf(event);
  return (
    <li data-change={event.kind}>
      <div className="change-head">
        <b className="anywhere">{visible(event.message)}</b>
        <span className="faint small nowrap"><Age at={event.at} suffix=" ago" /></span>
      </div>
      <div className="small soft anywhere">
        {visible(event.actor)}
        {event.reason && <span> “{visible(event.reason)}”</span>}
      </div>
      {revisions.length > 0 && (
        <ul className="revisions small">
          {revisions.map(({ name, before, after }) => (
            <li key={name} className="anywhere">
              <span className="mono tiny">{name}</span> <del className="faint">{visible(before)}</del> → <b>{visible(after)}</b>
            </li>
          ))}
        </ul>
      )}
      {event.request_id && <div className="faint tiny mono anywhere">request {visible(event.request_id)}</div>}
    </li>
  );
}

/** Every change of the run's life and settings, newest first. */
export function ChangeHistory({ run }: { run: RunDetail }) {
  const { data, error, hasNextPage, isFetchingNextPage, fetchNextPage } = useInfiniteQuery(changesQuery(run.name, KINDS));
  return (
    <Panel title="Changes" note="who, when, why; newest first" className="span-6">
      {error && <ErrorState title="The changes cannot be read" error={error} />}
      {!data && !error && <Skeletons heights={[240]} />}
      {data && <ol className="change-list" aria-label="Changes, newest first">{data.pages.flat().map((event) => <Entry key={event.id} event={event} />)}</ol>}
      {hasNextPage && (
        <Button variant="default" mt="sm" loading={isFetchingNextPage} onClick={() => void fetchNextPage()}>
          Older changes
        </Button>
      )}
    </Panel>
  );
}
