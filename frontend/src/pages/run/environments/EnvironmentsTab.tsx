import { Button, NumberInput, Stack, VisuallyHidden } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import {
  arrivalsQuery,
  BESIDE_MS,
  type EnvironmentChange,
  environmentsQuery,
  ledgerQuery,
  mixingQuery,
  useChangeEnvironment,
} from "@/api/queue";
import { useMayOperate } from "@/api/session";
import type { EnvironmentRow, RunDetail } from "@/api/types";
import type { Ends } from "@/charts/names";
import { Chip, ChipAge } from "@/components/chips";
import { type Column, DataTable } from "@/components/DataTable";
import { RECORDED_IN_EVENTS, ReasonDialog } from "@/components/Dialog";
import { term } from "@/components/filter/suggest";
import { Age } from "@/components/inline";
import { EmptyState, ErrorState, PANEL_GRID, Panel, Skeletons } from "@/components/panels";
import { counted, number, percent, visible } from "@/format";
import { usePartChangeFeed } from "@/live/live";
import { type EnvironmentView, environmentPanels, environmentViews, type Hold, holdOf, seriesOf } from "@/pages/run/environments/rows";
import { useRun } from "@/pages/run/RunContext";
import { RunWall } from "@/pages/run/RunWall";
import { unitOf } from "@/runs/queued";
import { environmentCommand, trainerCommand } from "@/runs/words";
import { panelOfAll } from "@/wall/panels";
import css from "./environments.module.css";

type Verb = "disconnect" | "reconnect" | "mute" | "unmute";

type Act = { label: string; does: string; change: EnvironmentChange };

const ACTIONS: Record<Verb, Act> = {
  disconnect: {
    label: "Disconnect",
    change: { connected: false },
    does: "Batches no longer wait for it, and the other environments get its share. Its queued groups are still served, and new pushes are still accepted.",
  },
  reconnect: {
    label: "Reconnect",
    change: { connected: true },
    does: "Its share and minimum allocation apply again from the next batch.",
  },
  mute: {
    label: "Mute",
    change: { muted: true },
    does: "New pushes are accepted and counted as dropped (muted): their content is not stored, no trainer receives it, and no batch waits for it. The environment is not notified and keeps working. Its queued groups are still served.",
  },
  unmute: {
    label: "Unmute",
    change: { muted: false },
    does: "New pushes are queued and served again. Groups dropped while muted stay dropped.",
  },
};

type Asked = { verb: Verb | "weight"; environment: EnvironmentRow };

/** Change an environment of a run, with a reason. */
function ChangeDialog({ run, verb, environment, onClose }: Asked & { run: string; onClose: () => void }) {
  const { env_id, wandb_name } = environment;
  const [weight, setWeight] = useState<number | string>(environment.weight);
  const asking = useChangeEnvironment(run);
  const act: Act = verb === "weight" ? { label: "Weight of", does: "", change: { weight: Number(weight) } } : ACTIONS[verb];
  return (
    <ReasonDialog
      title={`${act.label} ${visible(wandb_name)}`}
      asking={asking}
      refused="Environment not changed"
      recordedIn={"connected" in act.change ? undefined : RECORDED_IN_EVENTS}
      submit={verb === "weight" ? "Change" : act.label}
      isReady={verb !== "weight" || (typeof weight === "number" && weight !== environment.weight)}
      onSubmit={(reason) => asking.mutate({ env_id, ...act.change, reason }, { onSuccess: onClose })}
      onClose={onClose}
    >
      {act.does || (
        <NumberInput
          label="Weight"
          description="Its share of batches relative to the other weights, from the next batch on. 0: only used to fill otherwise incomplete batches."
          value={weight}
          min={0}
          max={1e6}
          data-autofocus
          onChange={setWeight}
        />
      )}
    </ReasonDialog>
  );
}

const words = (reason: string) => reason.replaceAll("_", " ");

/** Dropped items by reason, most frequent first; each links to the dropped items. */
function Drops({ run, view: { name, dropped, dropShare, reasons } }: { run: RunDetail; view: EnvironmentView }) {
  if (dropped === 0) return <span className="faint">none</span>;
  return (
    <>
      {percent(dropShare)}{" "}
      <span className="faint small">
        {reasons.map(([reason, items], i) => (
          <span key={reason}>
            {i > 0 && ", "}
            {run.kind === "fleet" ? (
              words(reason)
            ) : (
              <Link
                to="/runs/$name/trajectories"
                params={{ name: run.name }}
                search={{ q: `${term("env", name)} ${term("reason", reason)}` }}
                aria-label={`${words(reason)} drops of ${name}`}
              >
                {words(reason)}
              </Link>
            )}{" "}
            {number(items)}
          </span>
        ))}
      </span>
    </>
  );
}

/** Refused pushes, with the reason and the message of the latest. */
function Refusals({ view: { refused, refusals } }: { view: EnvironmentView }) {
  if (!refusals[0]) return null;
  const [, { message, newest_at }] = refusals[0];
  return (
    <div className="small" data-refused={refused}>
      refused {number(refused)}:{" "}
      <span className="faint">
        {refusals.map(([reason, { pushes, groups }]) => `${words(reason)} ${number(Math.max(groups ?? 0, pushes))}`).join(", ")} ·{" "}
        <Age at={newest_at} suffix=" ago" />
      </span>
      <div className="faint anywhere">{visible(message)}</div>
    </div>
  );
}

/** Numbers of its groups that are in no series, by problem, with the newest key of each. */
function Ignored({ view: { ignored } }: { view: EnvironmentView }) {
  if (ignored.length === 0) return null;
  const values = ignored.reduce((sum, [, { values }]) => sum + values, 0);
  return (
    <div className="small" data-ignored={values}>
      numbers without a series {number(values)}:{" "}
      <span className="faint anywhere">
        {ignored.map(([problem, one]) => `${words(problem)} ${number(one.values)} (${visible(one.key)})`).join(", ")}
      </span>
    </div>
  );
}

const HOLDS: Record<Hold, [tone: string, sign: string, label: string]> = {
  stopped: ["quiet", "◌", "stopped"],
  sending: ["held", "●", "still sends"],
  unreached: ["held", "●", "unreached"],
};

function lookOf({ muted, connected }: EnvironmentRow, hold: Hold | null): [tone: string, sign: string, label: string] {
  if (muted) return ["held", "⊘", connected ? "muted" : "muted, gone"];
  if (!connected) return ["quiet", "○", "gone"];
  return hold ? HOLDS[hold] : ["good", "●", "connected"];
}

function State({ environment, hold }: { environment: EnvironmentRow; hold: Hold | null }) {
  const [tone, sign, label] = lookOf(environment, hold);
  return (
    <Chip tone={tone} sign={sign}>
      {label}
      <ChipAge>
        <Age at={environment.last_seen_at} suffix=" ago" />
      </ChipAge>
    </Chip>
  );
}

function Name({ run, view: { name, environment } }: { run: RunDetail; view: EnvironmentView }) {
  const facts = environment && [
    `id ${environment.env_id}`,
    `groups of ${number(environment.group_size)}`,
    environment.max_token_length > 0 && `up to ${counted(environment.max_token_length, "token")}`,
    environment.min_batch_allocation !== null && `at least ${percent(environment.min_batch_allocation)}`,
    visible(environment.spec),
  ];
  const search = { ...(run.kind === "fleet" ? { kind: "episode" as const } : {}), q: term("env", name) };
  return (
    <>
      <Link to="/runs/$name/trajectories" params={{ name: run.name }} search={search} data-strong aria-label={`Samples of ${name}`}>
        {visible(name)}
      </Link>
      {facts && <div className="faint small anywhere">{facts.filter(Boolean).join(" · ")}</div>}
      {environment && environment.numbers > 0 && (
        <Link
          to="/runs/$name/metrics"
          params={{ name: run.name }}
          search={{ charts: [panelOfAll(seriesOf(environment.desired_name))] }}
          className="small"
          aria-label={`Numbers of ${name}`}
        >
          {counted(environment.numbers, "number")}
        </Link>
      )}
    </>
  );
}

/** A column heading with its unit on a second line. */
const headed = (heading: string, unit: string) => (
  <>
    {heading}
    <br />
    {unit}
  </>
);

/** The columns of a run's environments: state, share, rate, losses and actions. */
function columnsOf(run: RunDetail, mayOperate: boolean, onAsk: (asked: Asked) => void): Column<EnvironmentView>[] {
  const unit = unitOf(run.kind);
  return [
    {
      label: "Environment",
      className: `anywhere ${css.name}`,
      value: (view) => view.name,
      cell: (view) => <Name run={run} view={view} />,
    },
    {
      label: "Last seen",
      value: ({ environment }) => environment?.last_seen_at,
      cell: (view) =>
        view.environment ? (
          <State environment={view.environment} hold={holdOf(view, run)} />
        ) : (
          <span className="faint">from the fleet</span>
        ),
    },
    {
      label: "Weight",
      isNumber: true,
      value: ({ environment }) => environment?.weight,
      cell: ({ environment, name }) =>
        environment ? (
          <Button
            size="compact-sm"
            variant="default"
            disabled={!mayOperate}
            aria-label={`Change the weight of ${name}, now ${environment.weight}`}
            onClick={() => onAsk({ verb: "weight", environment })}
          >
            {number(environment.weight)}
          </Button>
        ) : (
          "–"
        ),
    },
    {
      id: "share",
      label: headed("Share", "of target"),
      isNumber: true,
      value: ({ mixing }) => mixing?.realised,
      title: "Share of the batches, and the share by weight",
      cell: ({ mixing }) =>
        mixing ? (
          <>
            {percent(mixing.realised)}
            <div className="faint small">of {percent(mixing.target)}</div>
          </>
        ) : (
          <span className="faint">not mixed</span>
        ),
    },
    {
      id: "rate",
      label: headed("Pushed", run.kind === "fleet" ? "fragments/min" : "groups/min"),
      isNumber: true,
      value: (view) => view.perSecond,
      cell: (view) => (
        <span data-rate title={view.pushedAt ? "Over the last minute, or less at very high rates" : "None in the last minute"}>
          {view.perSecond === null ? "–" : number(view.perSecond * 60)}
          {view.pushedAt && (
            <span className="faint small">
              <br />
              <Age at={view.pushedAt} suffix=" ago" />
            </span>
          )}
        </span>
      ),
    },
    {
      id: "queued",
      label: headed("Queued", unit),
      isNumber: true,
      value: (view) => view.queued,
      cell: (view) => (
        <span data-queued={view.queued}>
          {number(view.queued)} <span className="faint small">{percent(view.queueShare)}</span>
        </span>
      ),
    },
    {
      id: "served",
      label: headed("Served", unit),
      isNumber: true,
      value: (view) => view.served,
      cell: (view) => number(view.served),
    },
    {
      id: "dropped",
      label: headed(`Dropped ${unit},`, "refused pushes"),
      title: "Refused: pushes that were rejected entirely",
      value: (view) => view.dropped,
      cell: (view) => (
        <>
          <Drops run={run} view={view} />
          <Refusals view={view} />
          <Ignored view={view} />
        </>
      ),
    },
    {
      id: "actions",
      label: <VisuallyHidden>Actions</VisuallyHidden>,
      className: css.stacked,
      cell: ({ environment, name }) =>
        environment &&
        ([environment.connected ? "disconnect" : "reconnect", environment.muted ? "unmute" : "mute"] as const).map((verb) => (
          <Button
            key={verb}
            size="compact-sm"
            variant="subtle"
            disabled={!mayOperate}
            title={ACTIONS[verb].does}
            aria-label={`${ACTIONS[verb].label} ${name}`}
            onClick={() => onAsk({ verb, environment })}
          >
            {ACTIONS[verb].label}…
          </Button>
        )),
    },
  ];
}

/** Score, length and rate of the groups of each environment. */
function Charts({ environments }: { environments: readonly EnvironmentRow[] }) {
  const [range, setRange] = useState<Ends>({});
  const names = JSON.stringify(environments.map(({ desired_name }) => desired_name));
  const panels = useMemo(() => environmentPanels(environments), [names]);
  return <RunWall panels={panels} range={range} onRange={setRange} className={PANEL_GRID} />;
}

/** The environments that produce the run's data, with their share of batches and their losses. */
export function EnvironmentsTab() {
  const { run } = useRun();
  const mayOperate = useMayOperate();
  const [asked, setAsked] = useState<Asked | null>(null);
  const keys = ["environments", "mixing", "ledger", "arrivals"].map((key) => [key, run.name]);
  const refetchInterval = usePartChangeFeed(`run:${run.name}`, "ledger", BESIDE_MS, ...keys);
  // Registrations and disconnects arrive with the run part.
  usePartChangeFeed(`run:${run.name}`, "run", BESIDE_MS, ...keys);
  const environments = useQuery({ ...environmentsQuery(run.name), refetchInterval });
  const mixing = useQuery({ ...mixingQuery(run.name), refetchInterval, enabled: run.kind !== "fleet" });
  const ledger = useQuery({ ...ledgerQuery(run.name), refetchInterval });
  const arrivals = useQuery({ ...arrivalsQuery(run.name), refetchInterval });
  const error = environments.error ?? ledger.error;
  if (!environments.data || !ledger.data)
    return error ? <ErrorState title="Environments unavailable" error={error} /> : <Skeletons heights={[240]} />;
  const views = environmentViews(environments.data, mixing.data ?? [], ledger.data.environments, arrivals.data ?? []);
  return (
    <Stack gap="md">
      <Panel title="Environments" note="in order of registration">
        {error && <ErrorState title="Environments not refreshed" error={error} />}
        <DataTable
          label="Environments"
          rows={views}
          columns={columnsOf(run, mayOperate, setAsked)}
          keyOf={({ key }) => key}
          attributes={({ name }) => ({ "data-environment": name })}
          empty={
            <EmptyState
              title="No data from environments yet"
              command={run.kind === "outside" ? environmentCommand(run.name, location.origin) : trainerCommand(run, location.origin)}
              needs={{ scope: run.kind === "outside" ? "env" : "trainer", run: run.name }}
            >
              An Atropos environment registers itself if its server URL is this run's; a fleet's environments appear with their first
              fragment.
            </EmptyState>
          }
        />
        {asked && <ChangeDialog run={run.name} {...asked} onClose={() => setAsked(null)} />}
      </Panel>
      {run.kind === "outside" && environments.data.length > 0 && <Charts environments={environments.data} />}
    </Stack>
  );
}
