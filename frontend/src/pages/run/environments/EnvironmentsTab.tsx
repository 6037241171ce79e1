import { Table } from "@/components/Table";
import "@/pages/run/queue/queue.css";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { arrivalsQuery, BESIDE_MS, environmentsQuery, ledgerQuery, mixingQuery } from "@/api/queue";
import { useMayOperate } from "@/api/session";
import type { EnvironmentRow } from "@/api/types";
import { EmptyState } from "@/components/EmptyState";
import { ErrorState } from "@/components/ErrorState";
import { Panel } from "@/components/Panel";
import { Skeletons } from "@/components/Skeletons";
import { usePartChangeFeed } from "@/live/changeFeed";
import { ConnectDialog } from "@/pages/run/environments/ConnectDialog";
import { type Ask, EnvironmentLine } from "@/pages/run/environments/EnvironmentLine";
import { MuteDialog } from "@/pages/run/environments/MuteDialog";
import { environmentViews, holdOf, holdSummary } from "@/pages/run/environments/rows";
import { WeightDialog } from "@/pages/run/environments/WeightDialog";
import { unitOf } from "@/pages/run/queue/queued";
import { useRun } from "@/pages/run/RunContext";
import { environmentCommand, trainerCommand } from "@/pages/run/words";

const DIALOGS = { weight: WeightDialog, connect: ConnectDialog, mute: MuteDialog };

/** The environments that produce the run's data, with their share of batches and their losses. */
export function EnvironmentsTab() {
  const { run } = useRun();
  const mayOperate = useMayOperate();
  const [asked, setAsked] = useState<{ what: Ask; environment: EnvironmentRow } | null>(null);
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
  const held = holdSummary(views.map((view) => holdOf(view, run)));
  const unit = unitOf(run.kind);
  const Dialog = asked && DIALOGS[asked.what];
  return (
    <Panel title="Environments" note={held ?? "in order of registration"}>
      {error && <ErrorState title="Environments not refreshed" error={error} />}
      {views.length === 0 ? (
        <EmptyState
          title="No data from environments yet"
          command={run.kind === "outside" ? environmentCommand(run.name, location.origin) : trainerCommand(run, location.origin)}
          needs={{ scope: run.kind === "outside" ? "env" : "trainer", run: run.name }}
        >
          An Atropos environment registers itself if its server URL is this run's; a fleet's environments appear with their first fragment.
        </EmptyState>
      ) : (
        <Table
          label="Environments"
          columns={[
            "Environment",
            "Last seen",
            { label: "Weight", className: "num" },
            { label: <Unit of="Share" unit="of target" />, className: "num", title: "Share of the batches, and the share by weight" },
            {
              label: <Unit of="Debt" unit={unit} />,
              className: "num",
              title: "Sequences that batches owe the environment by its weight; negative if it is ahead",
            },
            { label: <Unit of="Pushed" unit={run.kind === "fleet" ? "fragments/min" : "groups/min"} />, className: "num" },
            { label: <Unit of="Queued" unit={unit} />, className: "num" },
            { label: <Unit of="Served" unit={unit} />, className: "num" },
            { label: <Unit of={`Dropped ${unit},`} unit="refused pushes" />, title: "Refused: pushes that were rejected entirely" },
            { label: <span className="unseen">Actions</span> },
          ]}
        >
          {views.map((view) => (
            <EnvironmentLine
              key={view.key}
              run={run}
              view={view}
              mayOperate={mayOperate}
              onAsk={(what, environment) => setAsked({ what, environment })}
            />
          ))}
        </Table>
      )}
      {asked && Dialog && <Dialog run={run.name} environment={asked.environment} onClose={() => setAsked(null)} />}
    </Panel>
  );
}

/** A column heading with its unit on a second line. */
function Unit({ of, unit }: { of: string; unit: string }) {
  return (
    <>
      {of}
      <br />
      {unit}
    </>
  );
}
