import "@/pages/run/queue/queue.css";
import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { environmentsQuery, ledgerQuery, mixingQuery } from "@/api/queue";
import { useMayOperate } from "@/api/session";
import type { EnvironmentRow } from "@/api/types";
import { Age } from "@/components/Age";
import { EmptyState } from "@/components/EmptyState";
import { ErrorState } from "@/components/ErrorState";
import { Panel } from "@/components/Panel";
import { Skeletons } from "@/components/Skeletons";
import { number, percent, visible } from "@/format";
import { ConnectDialog } from "@/pages/run/environments/ConnectDialog";
import { type EnvironmentView, environmentViews } from "@/pages/run/environments/rows";
import { WeightDialog } from "@/pages/run/environments/WeightDialog";
import { environmentCommand, trainerCommand } from "@/pages/run/words";
import { useRun } from "@/pages/run/RunContext";

const SHOWN_REASONS = 2;

function Drops({ view }: { view: EnvironmentView }) {
  if (view.dropped === 0) return <span className="faint">none</span>;
  const top = view.reasons.slice(0, SHOWN_REASONS).map(([reason, items]) => `${reason.replaceAll("_", " ")} ${number(items)}`);
  return (
    <>
      {percent(view.dropShare)} <span className="faint small">{top.join(", ")}</span>
    </>
  );
}

function Shares({ view }: { view: EnvironmentView }) {
  const { mixing } = view;
  if (!mixing) return <td className="num faint" colSpan={3}>not mixed</td>;
  return (
    <>
      <td className="num">{percent(mixing.target)}</td>
      <td className="num">{percent(mixing.realised)}</td>
      <td className="num" title="Sequences that batches owe it by its share; negative when it got ahead.">{number(mixing.debt)}</td>
    </>
  );
}

type RowProps = {
  view: EnvironmentView;
  mayOperate: boolean;
  onEdit: (environment: EnvironmentRow) => void;
  onConnect: (environment: EnvironmentRow) => void;
};

function Row({ view, mayOperate, onEdit, onConnect }: RowProps) {
  const { environment } = view;
  return (
    <tr data-environment={view.name}>
      <td className="anywhere">
        <b>{visible(view.name)}</b>
        {environment && (
          <div className="faint small">
            id {environment.env_id} · groups of {number(environment.group_size)}
            {environment.min_batch_allocation !== null && ` · at least ${percent(environment.min_batch_allocation)}`}
          </div>
        )}
      </td>
      <td>
        {environment ? (
          <span className={`chip tone-${environment.connected ? "good" : "quiet"}`}>
            <span className="chip-sign" aria-hidden="true">{environment.connected ? "●" : "○"}</span>
            {environment.connected ? "connected" : "gone"}
            <span className="chip-age">· <Age at={environment.last_seen_at} suffix=" ago" /></span>
          </span>
        ) : (
          <span className="faint">of the fleet</span>
        )}
      </td>
      <td className="num">
        {environment ? (
          <Button
            size="compact-sm"
            variant="default"
            disabled={!mayOperate}
            aria-label={`Change the weight of ${view.name}, now ${environment.weight}`}
            onClick={() => onEdit(environment)}
          >
            {number(environment.weight)}
          </Button>
        ) : (
          "–"
        )}
      </td>
      <Shares view={view} />
      <td className="num">{number(view.queued)} <span className="faint small">{percent(view.queueShare)}</span></td>
      <td className="num">{number(view.served)}</td>
      <td><Drops view={view} /></td>
      <td>
        {environment && (
          <Button
            size="compact-sm"
            variant="subtle"
            disabled={!mayOperate}
            aria-label={`${environment.connected ? "Disconnect" : "Reconnect"} ${view.name}`}
            onClick={() => onConnect(environment)}
          >
            {environment.connected ? "Disconnect…" : "Reconnect…"}
          </Button>
        )}
      </td>
    </tr>
  );
}

/** Who produces this run's data, what each gets of the batches, and what of it is lost. */
export function EnvironmentsTab() {
  const { run } = useRun();
  const mayOperate = useMayOperate();
  const [editing, setEditing] = useState<EnvironmentRow | null>(null);
  const [connecting, setConnecting] = useState<EnvironmentRow | null>(null);
  const environments = useQuery(environmentsQuery(run.name));
  const mixing = useQuery({ ...mixingQuery(run.name), enabled: run.kind !== "fleet" });
  const ledger = useQuery(ledgerQuery(run.name));
  const error = environments.error ?? ledger.error;
  if (error) return <ErrorState title="The environments cannot be read" error={error} />;
  if (!environments.data || !ledger.data) return <Skeletons heights={[240]} />;
  const views = environmentViews(environments.data, mixing.data ?? [], ledger.data.environments);
  return (
    <Panel title="Environments" note="in the order in which they registered">
      {views.length === 0 ? (
        <EmptyState
          title="No environment has pushed anything yet"
          command={run.kind === "outside" ? environmentCommand(run.name, location.origin) : trainerCommand(run, location.origin)}
          needs={{ scope: run.kind === "outside" ? "env" : "trainer", run: run.name }}
        >
          An Atropos environment registers by itself when its server URL is this run's; a fleet's appear with its first fragment.
        </EmptyState>
      ) : (
        <div className="table-scroll">
          <table className="table" aria-label="Environments">
            <thead>
              <tr>
                <th>Environment</th>
                <th>Last seen</th>
                <th className="num">Weight</th>
                <th className="num">By weight</th>
                <th className="num">Got</th>
                <th className="num">Debt · sequences</th>
                <th className="num">Queued</th>
                <th className="num">Served</th>
                <th>Dropped</th>
                <th><span className="unseen">Connection</span></th>
              </tr>
            </thead>
            <tbody>
              {views.map((view) => <Row key={view.key} view={view} mayOperate={mayOperate} onEdit={setEditing} onConnect={setConnecting} />)}
            </tbody>
          </table>
        </div>
      )}
      {connecting && <ConnectDialog run={run.name} environment={connecting} onClose={() => setConnecting(null)} />}
      {editing && <WeightDialog run={run.name} environment={editing} onClose={() => setEditing(null)} />}
    </Panel>
  );
}
