import type { Cluster, JobWorker, ProcessRow } from "@/api/deployment";
import { Age } from "@/components/Age";
import { EmptyState } from "@/components/EmptyState";
import { StateChip } from "@/components/StateChip";
import { Table } from "@/components/Table";
import { bytes, number, visible } from "@/format";
import { jobName, processProofSeconds } from "@/pages/cluster/parts";
import css from "./cluster.module.css";

type Kind = { role: string; rows: (ProcessRow | JobWorker)[] };

function Doing({ row }: { row: ProcessRow | JobWorker }) {
  if (!("queues" in row)) return <span className="faint">–</span>;
  const { active } = row;
  return (
    <>
      {active === null ? (
        <span className="faint">unknown</span>
      ) : active.length === 0 ? (
        <span className="soft">idle</span>
      ) : (
        active.map((job) => (
          <span key={`${job.name} ${job.started_at}`} className="tag" title={visible(job.name)}>
            {visible(jobName(job.name))}
            {job.started_at && (
              <>
                {" "}
                · <Age at={job.started_at} />
              </>
            )}
          </span>
        ))
      )}
      <div className="faint small">
        {number(row.concurrency)} concurrent · {row.queues.length === 1 ? "queue" : "queues"} {row.queues.map(visible).join(", ") || "–"}
      </div>
    </>
  );
}

/** The processes of the deployment, by their last heartbeat. */
export function Processes({ cluster }: { cluster: Cluster }) {
  const kinds: Kind[] = [
    { role: "web", rows: cluster.web },
    { role: "jobs", rows: cluster.workers },
    { role: "scheduler", rows: cluster.schedulers },
  ];
  if (kinds.every(({ rows }) => rows.length === 0)) {
    return (
      <EmptyState title="No heartbeats received" command="python manage.py up">
        Web servers, workers and schedulers send heartbeats once started, with this command or with Compose.
      </EmptyState>
    );
  }
  return (
    <Table
      label="Processes"
      columns={[
        "Process",
        "State",
        { label: "Current job", className: "wide-only" },
        { label: "Memory", className: "num wide-only" },
        { label: "Started", className: "num wide-only" },
      ]}
    >
      {kinds.flatMap(({ role, rows }) =>
        rows.map((row) => (
          <tr key={`${role} ${row.name}`} data-process={role}>
            <td className={css.process}>
              <b>{role}</b> <span className="soft small anywhere">{visible(row.name)}</span>
            </td>
            <td>
              <StateChip state="running" provenAt={row.confirmed_at} allowedSeconds={processProofSeconds(cluster)} />
            </td>
            <td className="wide-only">
              <Doing row={row} />
            </td>
            <td className="num wide-only">{bytes(row.memory_bytes)}</td>
            <td className="num soft wide-only">
              <Age at={row.started_at} suffix=" ago" />
            </td>
          </tr>
        )),
      )}
    </Table>
  );
}
