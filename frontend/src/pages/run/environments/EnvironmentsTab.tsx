import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { arrivalsQuery, BESIDE_MS, environmentsQuery, ledgerQuery, mixingQuery } from "@/api/queue";
import { useMayOperate } from "@/api/session";
import type { EnvironmentRow } from "@/api/types";
import { DataTable } from "@/components/DataTable";
import { EmptyState } from "@/components/EmptyState";
import { ErrorState } from "@/components/ErrorState";
import { Panel } from "@/components/Panel";
import { Skeletons } from "@/components/Skeletons";
import { usePartChangeFeed } from "@/live/changeFeed";
import { ConnectDialog } from "@/pages/run/environments/ConnectDialog";
import { type Ask, columnsOf } from "@/pages/run/environments/columns";
import { MuteDialog } from "@/pages/run/environments/MuteDialog";
import { environmentViews, holdOf, holdSummary } from "@/pages/run/environments/rows";
import { WeightDialog } from "@/pages/run/environments/WeightDialog";
import { useRun } from "@/pages/run/RunContext";
import { unitOf } from "@/runs/queued";
import { environmentCommand, trainerCommand } from "@/runs/words";

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
        <DataTable
          label="Environments"
          rows={views}
          columns={columnsOf(run, unitOf(run.kind), { mayOperate, onAsk: (what, environment) => setAsked({ what, environment }) })}
          keyOf={({ key }) => key}
          attributes={({ name }) => ({ "data-environment": name })}
        />
      )}
      {asked && Dialog && <Dialog run={run.name} environment={asked.environment} onClose={() => setAsked(null)} />}
    </Panel>
  );
}
