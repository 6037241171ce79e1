import { Badge, Button, Group, NumberInput, Textarea } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { TAKES_ADMIN, TAKES_OPERATOR, useMayAdminister, useMayOperate } from "@/api/session";
import { RunChip } from "@/components/chips";
import { type Column, DataTable } from "@/components/DataTable";
import { ReasonDialog, SideSheet } from "@/components/Dialog";
import { Facts } from "@/components/Facts";
import { Age, AppLink, Spark } from "@/components/inline";
import { Command, ErrorState, Skeletons } from "@/components/panels";
import { inUnit, number, percent, visible } from "@/format";
import {
  type EnvironmentKind,
  type EnvironmentRun,
  type KnownEnvironment,
  type KnownEnvironmentDetail,
  knownEnvironmentQuery,
  useApprove,
  useProbe,
} from "@/pages/environments/api";
import { KINDS, kwargsOf, launchCommand, probeText, worstOf } from "@/pages/environments/words";
import { RUN_PROOF_SECONDS } from "@/theme/chips";

type Props = { kind: EnvironmentKind; name: string; onClose: () => void };

function Figures({
  environment: { kind, per_hour, reward_mean, zero_variance_share, runs, active_runs, examined },
}: {
  environment: KnownEnvironment;
}) {
  const { unit } = KINDS[kind];
  return (
    <Facts
      facts={[
        [`${unit} in the last hour`, number(per_hour)],
        ["Mean reward", `${number(reward_mean)}${examined > 0 ? ` of ${inUnit(examined, unit)}` : ""}`],
        ["Zero variance", percent(zero_variance_share)],
        ["Runs", `${number(runs)}, ${number(active_runs)} active`],
      ]}
    />
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
      <Command text={command} />
      {environment.kind !== "outside" && !environment.registered && (
        <p className="held small">This environment is not registered: an administrator must add it to ROLLDECK_ENVIRONMENTS.</p>
      )}
      {mayOperate && environment.kind !== "outside" && (preset || from) && (
        <Group gap="xs" mt="xs">
          {preset && (
            <Button component={AppLink} to={`/runs/new?preset=${preset}`} size="compact-sm" variant="default">
              {`Launch form: ${preset}`}
            </Button>
          )}
          {from && (
            <Button component={AppLink} to={`/runs/new?from=${from}`} size="compact-sm" variant="default">
              {`Clone ${from}`}
            </Button>
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

const runColumns = (kind: EnvironmentKind): Column<EnvironmentRun>[] => [
  {
    label: "Run",
    className: "anywhere",
    value: ({ name }) => name,
    cell: ({ name, lessons, instances }) => (
      <>
        <Link to="/runs/$name" params={{ name }} data-strong>
          {name}
        </Link>
        {lessons.length > 0 && <div className="faint small">{lessons.map(visible).join(", ")}</div>}
        {kind === "outside" && <div className="faint small">{number(instances)} registered</div>}
      </>
    ),
  },
  {
    label: "State",
    value: ({ status }) => status,
    cell: (run) => (
      <RunChip
        run={{ ...run, kind: kind === "outside" ? "outside" : "fleet" }}
        observedAt={provenAt(run, kind)}
        allowedSeconds={PROOF_SECONDS}
      />
    ),
  },
  {
    label: "Seen",
    className: "soft mantine-visible-from-sm",
    isNumber: true,
    value: (run) => run.last_seen_at,
    cell: ({ last_seen_at }) => <Age at={last_seen_at} suffix=" ago" />,
  },
];

/** Whether new runs may use the environment, and the administrator's control for it. */
function Approval({ environment: { name, kind, registered, denied } }: { environment: KnownEnvironment }) {
  const isAdmin = useMayAdminister();
  const [isOpen, setOpen] = useState(false);
  const approve = useApprove();
  if (kind === "outside" || !registered) return null;
  const verb = denied ? "Allow" : "Deny";
  const close = () => setOpen(false);
  return (
    <div data-denied={denied ? "denied" : "allowed"}>
      {denied && (
        <p className="held small">
          ▲ Denied for new runs by {visible(denied.denied_by)} <Age at={denied.denied_at} suffix=" ago" />: {visible(denied.reason)}
        </p>
      )}
      <Button
        size="compact-sm"
        variant="default"
        disabled={!isAdmin}
        title={isAdmin ? undefined : TAKES_ADMIN}
        onClick={() => setOpen(true)}
      >
        {verb}…
      </Button>
      {isOpen && (
        <ReasonDialog
          title={denied ? `Allow ${visible(name)}?` : `Deny ${visible(name)} for new runs?`}
          asking={approve}
          refused="Environment not changed"
          submit={verb}
          recordedIn={denied ? undefined : "Shown in the error of refused launches, and recorded with your name in the audit log."}
          destroys={!denied}
          onSubmit={(reason) => approve.mutate({ spec: name, is_allowed: denied !== null, reason }, { onSuccess: close })}
          onClose={close}
        >
          {denied ? "New runs can use this environment." : "New runs cannot use this environment. Existing runs continue."}
        </ReasonDialog>
      )}
    </div>
  );
}

const STEPS = 1000;

function startOf({ config }: KnownEnvironmentDetail): string {
  const { kwargs } = (config.environment ?? {}) as { kwargs?: Record<string, unknown> };
  return kwargs ? JSON.stringify(kwargs) : "{}";
}

/** Run one episode with random actions to verify an environment. */
function ProbePanel({ shown }: { shown: KnownEnvironmentDetail }) {
  const mayOperate = useMayOperate();
  const [typed, setTyped] = useState(() => startOf(shown));
  const [steps, setSteps] = useState<string | number>(STEPS);
  const trying = useProbe();
  const { kwargs, problem } = kwargsOf(typed);
  const { data, error } = trying;
  const submit = () => kwargs && trying.mutate({ spec: shown.environment.name, kwargs, steps: Number(steps) || STEPS });
  return (
    <section aria-label="Probe">
      <h3>Probe with one episode</h3>
      <p className="small soft">
        Runs one episode with random actions in a separate process on the server, without secrets and for at most 20 s. Nothing is stored.
      </p>
      <Group align="end" gap="xs">
        <Textarea
          size="xs"
          label="Arguments"
          description="JSON"
          autosize
          minRows={1}
          spellCheck={false}
          value={typed}
          error={problem}
          onChange={(event) => setTyped(event.currentTarget.value)}
        />
        <NumberInput size="xs" label="Max. steps" min={1} max={100_000} allowDecimal={false} value={steps} onChange={setSteps} />
        <Button
          size="xs"
          variant="default"
          loading={trying.isPending}
          disabled={!mayOperate || !kwargs}
          title={mayOperate ? undefined : TAKES_OPERATOR}
          onClick={submit}
        >
          Run probe
        </Button>
      </Group>
      {error && <ErrorState title="Probe failed" error={error} />}
      {data && (
        <div role="status" data-tried={data.trouble ? "trouble" : "played"} className="small">
          <p className={data.trouble ? "held" : undefined}>{visible(probeText(data))}</p>
          {data.episode && data.episode.rewards.length > 1 && (
            <p className="soft">
              Rewards of the first {data.episode.rewards.length} steps:{" "}
              <Spark label="Rewards by step" values={data.episode.rewards.map((one) => one ?? 0)} />
            </p>
          )}
        </div>
      )}
    </section>
  );
}

/** One environment: statistics, launch commands and runs. */
export function EnvironmentDrawer({ kind, name, onClose }: Props) {
  const { data, error } = useQuery(knownEnvironmentQuery(kind, name));
  return (
    <SideSheet onClose={onClose} size="lg" title={visible(name)}>
      <p className="soft">
        <Badge>{KINDS[kind].label}</Badge> {KINDS[kind].meaning}
      </p>
      {error && <ErrorState title="Environment unavailable" error={error} />}
      {!data && !error && <Skeletons heights={[90, 70, 160]} />}
      {data && (
        <>
          <Figures environment={data.environment} />
          <Launch shown={data} />
          <Approval environment={data.environment} />
          {kind === "steps" && data.environment.registered && <ProbePanel key={name} shown={data} />}
          <p>
            <Link to="/trajectories" search={worstOf(kind, name)}>
              Worst trajectories of this environment
            </Link>
          </p>
          <h3>Runs</h3>
          <DataTable
            label="Runs of this environment, newest first"
            rows={data.runs}
            columns={runColumns(kind)}
            keyOf={(run) => run.name}
            empty={<p className="faint">No run has used this environment yet.</p>}
          />
        </>
      )}
    </SideSheet>
  );
}
