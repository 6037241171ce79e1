import { Badge, Button } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { type Cluster, type JobWorker, type ProcessRow, type RayNode, useCordonMachine } from "@/api/deployment";
import { TAKES_ADMIN, useMayAdminister } from "@/api/session";
import { Chip, StateChip } from "@/components/chips";
import { type Column, DataTable } from "@/components/DataTable";
import { ReasonDialog } from "@/components/Dialog";
import { Age, Hint } from "@/components/inline";
import { Line } from "@/components/Lanes";
import { EmptyState } from "@/components/panels";
import { bytes, counted, number, percent, visible } from "@/format";
import { emptied, type Place, type Process, placesOf } from "@/pages/cluster/machines";
import { jobName, processProofSeconds, share } from "@/pages/cluster/parts";
import css from "./cluster.module.css";

/** A used share as a line, with the use in words. */
export function Use({ part, words, label = words }: { part: number | null; words: string; label?: string }) {
  return (
    <>
      {part !== null && (
        <Line
          words={`${label}: ${percent(part)}`}
          segments={[{ key: "use", width: part, fill: part >= TIGHT ? "var(--held)" : "var(--chart-1)" }]}
        />
      )}
      <span className="small soft">{words}</span>
    </>
  );
}

const TIGHT = 0.9;

const EMPTY = [
  "Workers of all runs on this machine finish and send their current work, exit, and restart on other machines",
  "with free resources. No new workers or managers of this server are placed on it until it is uncordoned.",
  "A manager on the machine keeps running there. Other workloads of the cluster are not affected.",
].join(" ");
const LET_IN = "New workers and managers may be placed on the machine again. Moved workers stay where they are.";

/** Cordon or uncordon a machine, with its cordon and the remaining workers. */
function CordonMachine({ place: { node, host, cordon } }: { place: Place }) {
  const mayAdminister = useMayAdminister();
  // The action of the dialog; the cordon may change meanwhile.
  const [open, setOpen] = useState<"" | "cordon" | "lift">("");
  const ask = useCordonMachine();
  const id = cordon?.node ?? (node?.alive ? node.node : undefined);
  if (id === undefined) return null;
  const name = visible(host) || id.slice(0, 12);
  const lifts = open === "lift";
  const help = cordon
    ? "Allow new workers and managers on this machine again."
    : "Move workers off this machine and place no new ones on it.";
  const words = cordon ? "Uncordon…" : "Cordon…";
  return (
    <>
      {cordon && (
        <div className="small soft anywhere" role="status" data-machine-cordon={cordon.workers === 0 ? "applied" : "requested"}>
          <Chip tone="held" sign={cordon.workers === 0 ? "✓" : "◕"}>
            cordoned
          </Chip>{" "}
          by {visible(cordon.cordoned_by)} <Age at={cordon.cordoned_at} suffix=" ago" />: {visible(cordon.reason)}
          <div>{visible(emptied(cordon))}</div>
        </div>
      )}
      <Hint label={mayAdminister ? help : TAKES_ADMIN}>
        <Button
          size="compact-xs"
          variant="default"
          disabled={!mayAdminister}
          aria-label={`${words} ${name}`}
          onClick={() => setOpen(cordon ? "lift" : "cordon")}
        >
          {words}
        </Button>
      </Hint>
      {open && (
        <ReasonDialog
          title={lifts ? `Uncordon ${name}` : `Cordon ${name}`}
          asking={ask}
          refused="Machine not changed"
          recordedIn="Shown beside the machine and recorded in the audit log."
          submit={lifts ? "Uncordon" : "Cordon"}
          needsReason={!lifts}
          onSubmit={(reason) => ask.mutate({ node: id, reason, lifts }, { onSuccess: () => setOpen("") })}
          onClose={() => setOpen("")}
        >
          <p>{lifts ? LET_IN : EMPTY}</p>
        </ReasonDialog>
      )}
    </>
  );
}

/** The jobs at work, and the queues of a job process. */
function Doing({ row }: { row: ProcessRow | JobWorker }) {
  if (!("queues" in row)) return null;
  const { active, concurrency, queues } = row;
  const work = active?.map(({ name, started_at }) => (
    <Badge key={`${name} ${started_at}`} title={visible(name)}>
      {visible(jobName(name))}
    </Badge>
  ));
  return (
    <>
      {" · "}
      {active === null ? "jobs unknown" : active.length === 0 ? "idle" : work}
      <span className="faint">{` · ${number(concurrency)} at once of ${queues.map(visible).join(", ") || "no queue"}`}</span>
    </>
  );
}

function Processes({ processes, proofSeconds, columns }: { processes: Process[]; proofSeconds: number; columns: number }) {
  return processes.map(({ role, row }) => (
    <tr key={`${role} ${row.name}`} data-process={role} className="small">
      <td className={css.process}>
        {role} <span className="faint anywhere">{visible(row.name)}</span>
      </td>
      <td>
        <StateChip state="running" provenAt={row.confirmed_at} allowedSeconds={proofSeconds} />
      </td>
      {/* Memory is in the column of that of the machine. */}
      <td className="mantine-visible-from-sm" colSpan={columns - 5} />
      <td className="mantine-visible-from-sm soft">{bytes(row.memory_bytes)}</td>
      <td className="mantine-visible-from-sm soft" colSpan={2}>
        started <Age at={row.started_at} suffix=" ago" />
        <Doing row={row} />
      </td>
    </tr>
  ));
}

function State({ place: { node } }: { place: Place }) {
  if (node === null) return <span className="faint small">not a node of Ray</span>;
  return (
    <Chip tone={node.alive ? "good" : "bad"} sign={node.alive ? "●" : "✕"}>
      {node.alive ? "alive" : "gone"}
    </Chip>
  );
}

type Resource = { id: "cpus" | "gpus" | "memory" | "object_store"; label: string };

/** The part of a resource of the machine that Ray has reserved. */
function reserved({ id, label }: Resource): Column<Place> {
  const amounts = (node: RayNode): [used: number, total: number] =>
    id === "cpus" || id === "gpus" ? [node[`${id}_used`], node[id]] : [node[`${id}_used_bytes`] ?? 0, node[`${id}_bytes`] ?? 0];
  const format = id === "cpus" || id === "gpus" ? number : bytes;
  return {
    id,
    label,
    title: "Reserved by actors of Ray",
    className: "mantine-visible-from-sm nowrap",
    value: ({ node }) => node && share(...amounts(node)),
    cell: ({ node, host }) => {
      if (!node) return null;
      const [used, total] = amounts(node);
      return (
        total > 0 && <Use part={share(used, total)} words={`${format(used)} of ${format(total)}`} label={`${label} reserved on ${host}`} />
      );
    },
  };
}

const COLUMNS: Column<Place>[] = [
  {
    id: "host",
    label: "Machine",
    className: css.process,
    value: ({ host }: Place) => host,
    cell: ({ host, node }) => (
      <>
        <b className="anywhere">{visible(host) || "node"}</b> {node?.is_head && <Badge>head</Badge>}
        {node && (
          <div className="faint tiny mono" title="Ray node ID">
            {node.node.slice(0, 12)}
          </div>
        )}
      </>
    ),
  },
  { id: "state", label: "State", cell: (place) => <State place={place} /> },
  reserved({ id: "cpus", label: "CPUs" }),
  reserved({ id: "gpus", label: "GPUs" }),
  reserved({ id: "memory", label: "Memory" }),
  reserved({ id: "object_store", label: "Object store" }),
  {
    id: "workers",
    label: "Workers",
    value: ({ runs }: Place) => runs.reduce((sum, { workers }) => sum + workers, 0),
    cell: (place) => (
      <>
        {place.runs.map(({ run, workers }) => (
          <div key={run} className="small anywhere">
            <Link to="/runs/$name/fleet" params={{ name: run }}>
              {visible(run)}
            </Link>{" "}
            <span className="soft">{counted(workers, "worker")}</span>
          </div>
        ))}
        <CordonMachine place={place} />
      </>
    ),
  },
];

/** One table of the machines: reserved resources, workers by run and cordons, and their processes below them. */
export function Machines({ cluster }: { cluster: Cluster }) {
  const places = placesOf(cluster);
  if (places.length === 0) {
    return (
      <EmptyState title="No heartbeats received" guide="howto/cluster" command="python manage.py up">
        Web servers, workers and schedulers send heartbeats once started, with this command or with Compose.
      </EmptyState>
    );
  }
  const hasGpus = cluster.ray.nodes.some(({ gpus }) => gpus > 0);
  const columns = hasGpus ? COLUMNS : COLUMNS.filter(({ id }) => id !== "gpus");
  return (
    <DataTable
      label="Machines"
      rows={places}
      columns={columns}
      keyOf={({ host, node, cordon }) => `${host} ${node?.node ?? cordon?.node ?? ""}`}
      attributes={({ host, node }) => ({ "data-machine": host, "data-gone": node?.alive === false || undefined })}
      below={({ processes }) => <Processes processes={processes} proofSeconds={processProofSeconds(cluster)} columns={columns.length} />}
    />
  );
}
