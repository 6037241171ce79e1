import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useAlertKinds } from "@/api/alerts";
import { TAKES_OPERATOR, useMayOperate } from "@/api/session";
import { Age } from "@/components/Age";
import { Chip } from "@/components/Chip";
import { rolldeckCommand } from "@/components/commandToken";
import { EmptyState } from "@/components/EmptyState";
import { ErrorState } from "@/components/ErrorState";
import { useNow } from "@/components/now";
import { Panel } from "@/components/Panel";
import { ReasonDialog } from "@/components/ReasonDialog";
import { Skeletons } from "@/components/Skeletons";
import { Table } from "@/components/Table";
import { duration, utc, visible } from "@/format";
import { type Silence, silencesQuery, useEndSilence } from "@/pages/alerts/api";
import { SilenceDialog } from "./SilenceDialog";

/** For the example command: one hour from now, to the minute. */
const inAnHour = (): string => `${new Date(Date.now() + 3_600_000).toISOString().slice(0, 16)}Z`;

/** A function that names the silenced kind of alert or rule. */
function useSubject(): (silence: Silence) => string {
  const kinds = useAlertKinds();
  return ({ kind, rule_name }) => (rule_name ? visible(rule_name) : (kinds.find(({ value }) => value === kind)?.label ?? kind));
}

function Until({ silence }: { silence: Silence }) {
  const now = useNow();
  if (!silence.is_lasting) {
    const over = silence.ended_at ?? silence.until;
    return (
      <>
        <Chip tone="quiet" sign="✓" data-silence="over">
          ended
        </Chip>
        <div className="small soft">
          <Age at={over} suffix=" ago" />
          {silence.ended_by && `, ended by ${visible(silence.ended_by)}`}
        </div>
      </>
    );
  }
  return (
    <>
      <Chip tone="busy" sign="☾" data-silence="lasting">
        active
      </Chip>
      <div className="small soft" title={utc(silence.until)}>
        {duration((Date.parse(silence.until) - now) / 1000)} remaining
      </div>
    </>
  );
}

function EndSilence({ silence, onClose }: { silence: Silence; onClose: () => void }) {
  const end = useEndSilence(silence.id);
  const subjectOf = useSubject();
  return (
    <ReasonDialog
      title={`End the silence of “${subjectOf(silence)}”?`}
      submit="End silence"
      asking={end}
      refused="Silence not ended"
      onClose={onClose}
      onSubmit={(reason) => end.mutate(reason, { onSuccess: onClose })}
    >
      <p>Alerts that are still active notify within seconds.</p>
    </ReasonDialog>
  );
}

/** Active and recently ended silences. */
export function SilencesPanel() {
  const { data, error, isPending } = useQuery(silencesQuery);
  const subjectOf = useSubject();
  const mayOperate = useMayOperate();
  const [isNew, setNew] = useState(false);
  const [ending, setEnding] = useState<Silence | null>(null);
  const why = mayOperate ? undefined : TAKES_OPERATOR;
  return (
    <Panel
      title="Silences"
      note="alerts stay visible, notifications are suspended"
      aside={
        <Button size="compact-sm" disabled={!mayOperate} title={why} onClick={() => setNew(true)}>
          Add silence…
        </Button>
      }
    >
      {error && <ErrorState title="Silences unavailable" error={error} />}
      {isPending && <Skeletons heights={[120]} />}
      {data?.length === 0 && (
        <EmptyState
          title="No silences"
          command={rolldeckCommand(`api POST alert-silences kind=fleet_silent until=${inAnHour()} reason="cluster maintenance"`)}
          needs={{ scope: "user" }}
        >
          A silence suspends the notifications of a kind of alerts or of one rule, in one run or in all runs, for a limited time. Its alerts
          stay visible.
        </EmptyState>
      )}
      {data && data.length > 0 && (
        <Table
          label="Silences"
          columns={["State", "Alerts", { label: "Reason", className: "wide-only" }, { label: <span className="unseen">Actions</span> }]}
        >
          {data.map((silence) => (
            <tr key={silence.id} data-row data-silence-id={silence.id}>
              <td>
                <Until silence={silence} />
              </td>
              <td className="anywhere">
                {subjectOf(silence)}
                <div className="small soft">{silence.run ? `in ${silence.run}` : "in all runs"}</div>
                <div className="narrow-only small">“{visible(silence.reason)}”</div>
              </td>
              <td className="anywhere wide-only">
                “{visible(silence.reason)}”
                <div className="small soft">
                  {visible(silence.created_by)}, <Age at={silence.created_at} suffix=" ago" />
                </div>
              </td>
              <td className="num">
                {silence.is_lasting && (
                  <Button
                    size="compact-sm"
                    variant="default"
                    disabled={!mayOperate}
                    title={why}
                    aria-label={`End the silence of ${subjectOf(silence)}`}
                    onClick={() => setEnding(silence)}
                  >
                    End…
                  </Button>
                )}
              </td>
            </tr>
          ))}
        </Table>
      )}
      {isNew && <SilenceDialog start={{}} onClose={() => setNew(false)} />}
      {ending && <EndSilence silence={ending} onClose={() => setEnding(null)} />}
    </Panel>
  );
}
