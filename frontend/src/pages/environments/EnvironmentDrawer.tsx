import { Button, Group } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMayOperate } from "@/api/session";
import { Age } from "@/components/Age";
import { Lines } from "@/components/Copying";
import { SideSheet } from "@/components/Dialog";
import { ErrorState } from "@/components/ErrorState";
import { RunChip } from "@/components/RunChip";
import { Skeletons } from "@/components/Skeletons";
import { number, percent, visible } from "@/format";
import { Approval } from "@/pages/environments/Approval";
import { type EnvironmentKind, type EnvironmentRun, type KnownEnvironmentDetail, knownEnvironmentQuery } from "@/pages/environments/api";
import { ProbePanel } from "@/pages/environments/ProbePanel";
import { KINDS, launchCommand, worstOf } from "@/pages/environments/words";
import { RUN_PROOF_SECONDS } from "@/theme/chips";
import css from "./environments.module.css";

type Props = { kind: EnvironmentKind; name: string; onClose: () => void };

function Facts({ shown: { environment } }: { shown: KnownEnvironmentDetail }) {
  const { unit } = KINDS[environment.kind];
  const facts: [string, string][] = [
    [`${unit} in the last hour`, number(environment.per_hour)],
    ["Mean reward", number(environment.reward_mean)],
    ["Zero variance", percent(environment.zero_variance_share)],
    ["Runs", `${number(environment.runs)}, ${number(environment.active_runs)} active`],
    ["Based on", environment.examined > 0 ? `${number(environment.examined)} ${unit}` : "no data"],
  ];
  return (
    <dl className={css.facts}>
      {facts.map(([term, value]) => (
        <div key={term}>
          <dt>{term}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function Launch({ shown: { environment, config } }: { shown: KnownEnvironmentDetail }) {
  const mayOperate = useMayOperate();
  const command = launchCommand(environment, config, location.origin);
  const [preset] = environment.presets;
  const from = environment.newest_run;
  return (
    <>
      <h3>{environment.kind === "outside" ? "Connect an environment" : "Launch"}</h3>
      <Lines text={command} />
      {environment.kind !== "outside" && !environment.registered && (
        <p className="held small">This environment is not registered: an administrator must add it to ROLLDECK_ENVIRONMENTS.</p>
      )}
      {mayOperate && environment.kind !== "outside" && (preset || from) && (
        <Group gap="xs" mt="xs">
          {preset && (
            <Button
              size="compact-sm"
              variant="default"
              renderRoot={(props) => <Link to="/runs/new" search={{ preset }} {...props} />}
            >{`Launch form: ${preset}`}</Button>
          )}
          {from && (
            <Button
              size="compact-sm"
              variant="default"
              renderRoot={(props) => <Link to="/runs/new" search={{ from }} {...props} />}
            >{`Clone ${from}`}</Button>
          )}
        </Group>
      )}
    </>
  );
}

/** Refetch interval of the list: 10 s. */
const PROOF_SECONDS = 10 + RUN_PROOF_SECONDS;

/** The heartbeat behind a run's state; a draining run may have no fleet. */
function provenAt(run: EnvironmentRun, kind: EnvironmentKind): string | null {
  return kind === "outside" || run.status === "draining" ? null : run.last_seen_at;
}

function Runs({ runs, kind }: { runs: EnvironmentRun[]; kind: EnvironmentKind }) {
  if (runs.length === 0) return <p className="faint">No run has used this environment yet.</p>;
  return (
    <div className="table-scroll">
      <table className="table" aria-label="Runs of this environment, newest first">
        <tbody>
          {runs.map((run) => (
            <tr key={run.name}>
              <td className="anywhere">
                <Link to="/runs/$name" params={{ name: run.name }} className="strong">
                  {run.name}
                </Link>
                {run.lessons.length > 0 && <div className="faint small">{run.lessons.map(visible).join(", ")}</div>}
                {kind === "outside" && <div className="faint small">{number(run.instances)} registered</div>}
              </td>
              <td>
                <RunChip
                  run={{ ...run, kind: kind === "outside" ? "outside" : "fleet" }}
                  observedAt={provenAt(run, kind)}
                  allowedSeconds={PROOF_SECONDS}
                />
              </td>
              <td className="num soft wide-only">
                {run.last_seen_at ? (
                  <>
                    seen <Age at={run.last_seen_at} suffix=" ago" />
                  </>
                ) : (
                  "–"
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** One environment: statistics, launch commands and runs. */
export function EnvironmentDrawer({ kind, name, onClose }: Props) {
  const { data, error } = useQuery(knownEnvironmentQuery(kind, name));
  return (
    <SideSheet onClose={onClose} size="lg" title={visible(name)}>
      <p className={css.meaning}>
        <span className="tag">{KINDS[kind].label}</span> {KINDS[kind].meaning}
      </p>
      {error && <ErrorState title="Environment unavailable" error={error} />}
      {!data && !error && <Skeletons heights={[90, 70, 160]} />}
      {data && (
        <>
          <Facts shown={data} />
          <Launch shown={data} />
          <Approval environment={data.environment} />
          {kind === "steps" && data.environment.registered && <ProbePanel key={name} shown={data} />}
          <p>
            <Link to="/trajectories" search={worstOf(kind, name)}>
              Worst trajectories of this environment
            </Link>
          </p>
          <h3>Runs</h3>
          <Runs runs={data.runs} kind={kind} />
        </>
      )}
    </SideSheet>
  );
}
