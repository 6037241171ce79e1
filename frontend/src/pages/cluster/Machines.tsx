import { Link } from "@tanstack/react-router";
import type { Cluster, JobWorker, ProcessRow, RayNode } from "@/api/deployment";
import { Age } from "@/components/Age";
import { Chip } from "@/components/Chip";
import { type Column, DataTable } from "@/components/DataTable";
import { EmptyState } from "@/components/EmptyState";
import { StateChip } from "@/components/StateChip";
import { bytes, counted, number, visible } from "@/format";
import { CordonMachine } from "@/pages/cluster/CordonMachine";
import { type Place, type Process, placesOf } from "@/pages/cluster/machines";
import { jobName, processProofSeconds, share } from "@/pages/cluster/parts";
import { Use } from "@/pages/cluster/Services";
import css from "./cluster.module.css";

/** The jobs at work, and the queues of a job process. */
function Doing({ row }: { row: ProcessRow | JobWorker }) {
  if (!("queues" in row)) return null;
  const { active } = row;
  const work = active?.map((job) => (
    <span key={`${job.name} ${job.started_at}`} className="tag" title={visible(job.name)}>
      {visible(jobName(job.name))}
      {job.started_at && (
        <>
          {" "}
          · <Age at={job.started_at} />
        </>
      )}
    </span>
  ));
  return (
    <>
      {active === null ? "jobs unknown" : active.length === 0 ? "idle" : work}
      <span className="faint">
        {" "}
        · {number(row.concurrency)} at once of {row.queues.map(visible).join(", ") || "no queue"}
      </span>
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
      <td className="wide-only num soft">{bytes(row.memory_bytes)}</td>
      <td className="wide-only soft" colSpan={columns - 3}>
        started <Age at={row.started_at} suffix=" ago" /> <Doing row={row} />
      </td>
    </tr>
  ));
}

function State({ place: { node } }: { place: Place }) {
  if (node === null) return <span className="faint small">not a node of Ray</span>;
  return node.alive ? (
    <Chip tone="good" sign="●">
      alive
    </Chip>
  ) : (
    <Chip tone="bad" sign="✕">
      gone
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
    ...{ id, label, title: "Reserved by actors of Ray", className: "wide-only nowrap" },
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
    ...{ id: "host", label: "Machine", className: css.process, value: ({ host }: Place) => host },
    cell: ({ host, node }) => (
      <>
        <b className="anywhere">{visible(host) || "node"}</b> {node?.is_head && <span className="tag">head</span>}
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
    ...{ id: "workers", label: "Workers", value: ({ runs }: Place) => runs.reduce((sum, { workers }) => sum + workers, 0) },
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
