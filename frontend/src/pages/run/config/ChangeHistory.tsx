import { Button, Group, List, Stack } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useChangeRun } from "@/api/runs";
import { TAKES_OPERATOR, useMayOperate } from "@/api/session";
import type { RunDetail, RunEvent } from "@/api/types";
import { RECORDED_IN_EVENTS, ReasonDialog } from "@/components/Dialog";
import { Age } from "@/components/inline";
import { ErrorState, Panel, Skeletons } from "@/components/panels";
import { ShowMore } from "@/components/Table";
import { visible } from "@/format";
import { useChangeFeed, useSeries } from "@/live/live";
import css from "@/pages/run/config/config.module.css";
import { backTo, type Revision, revisionOf } from "@/pages/run/config/revisions";
import { changesQuery, EVERY_MS } from "@/pages/run/weights/api";
import { isOver } from "@/theme/chips";

const KINDS = [
  ...["created", "status", "settings_changed", "environment_changed", "archived", "epoch_opened"],
  ...["batch_released", "batch_discarded", "trainer_registered", "environment_registered", "fleet_launched", "tokenizer_set"],
];

/** The values that an event changed. */
function Revisions({ rows, label }: { rows: Revision[]; label?: string }) {
  if (rows.length === 0) return null;
  return (
    <List size="sm" aria-label={label}>
      {rows.map(({ name, before, after }) => (
        <List.Item key={name} className="anywhere">
          <span className="mono tiny">{name}</span> <del className="faint">{visible(before)}</del> → <b>{visible(after)}</b>
        </List.Item>
      ))}
    </List>
  );
}

/** Restore the settings after an event. Settings apply only until the run has ended; an ended run cannot restore them. */
function Restore({ run, events, place }: { run: RunDetail; events: RunEvent[]; place: number }) {
  const mayOperate = useMayOperate();
  const change = useChangeRun(run.name);
  const [isOpen, setOpen] = useState(false);
  const back = isOver(run.status) ? null : backTo(events, place);
  if (!back) return null;
  const close = () => setOpen(false);
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
      {isOpen && (
        <ReasonDialog
          title="Restore these settings?"
          asking={change}
          refused="Settings not restored"
          recordedIn={RECORDED_IN_EVENTS}
          submit="Restore"
          onSubmit={(reason) => change.mutate({ ...back.changes, reason }, { onSuccess: close })}
          onClose={close}
        >
          <p className="small">Takes effect immediately, as if each setting were changed manually.</p>
          <Revisions label="Changes" rows={back.rows} />
        </ReasonDialog>
      )}
    </>
  );
}

/** Events after which the settings form a restorable state. */
const RESTORED = new Set(["created", "settings_changed"]);

/** All state and settings changes of the run, newest first. */
export function ChangeHistory({ run }: { run: RunDetail }) {
  const refetchInterval = useChangeFeed(useSeries(`run:${run.name}`, "events").at(-1)?.id, EVERY_MS, ["changes", run.name]);
  const changes = useInfiniteQuery({ ...changesQuery(run.name, KINDS), refetchInterval });
  const { data, error } = changes;
  const events = data?.pages.flatMap((page) => page.results) ?? [];
  return (
    <Panel title="Changes" note="author, time and reason; newest first" columns={6}>
      {error && <ErrorState title="Changes unavailable" error={error} />}
      {!data && !error && <Skeletons heights={[240]} />}
      {data && (
        <Stack component="ol" m={0} p={0} aria-label="Changes, newest first">
          {events.map((event, place) => (
            <li key={event.id} className={css.change} data-change={event.kind}>
              <Group justify="space-between" wrap="nowrap" align="baseline">
                <b className="anywhere">{visible(event.message)}</b>
                <span className="faint small nowrap">
                  <Age at={event.at} suffix=" ago" />
                </span>
              </Group>
              <div className="small soft anywhere">
                {visible(event.actor)}
                {event.reason && <span> “{visible(event.reason)}”</span>}
              </div>
              <Revisions rows={revisionOf(event)} />
              {RESTORED.has(event.kind) && <Restore run={run} events={events} place={place} />}
            </li>
          ))}
        </Stack>
      )}
      <ShowMore pages={changes} words="Show older changes" />
    </Panel>
  );
}
