import type { Cluster, JobWorker, ProcessRow } from "@/api/deployment";
import { Age } from "@/components/Age";
import { EmptyState } from "@/components/EmptyState";
import { StateChip } from "@/components/StateChip";
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
    { role: "clock", rows: cluster.clocks },
  ];
  if (kinds.every(({ rows }) => rows.length === 0)) {
    return (
      <EmptyState title="No heartbeats received" command="python manage.py up">
        Web servers, workers and schedulers send heartbeats once started, with this command or with Compose.
      </EmptyState>
    );
  }
  return (
    <div className="table-scroll">
      <table className="table" aria-label="Processes">
        <thead>
          <tr>
            <th scope="col">Process</th>
            <th scope="col">State</th>
            <th scope="col" className="wide-only">
              Current job
            </th>
            <th scope="col" className="num wide-only">
              Memory
            </th>
            <th scope="col" className="num wide-only">
              Started
            </th>
          </tr>
        </thead>
        <tbody>
          {kinds.flatMap(({ role, rows }) =>
            rows.map((row) => (
              <tr key={`${role} ${row.name}`} data-process={role}>
                <td className={css.process}>
                  <b>{role}</b> <span className="soft small anywhere">{visible(row.name)}</span>
                </td>
                <td>
                  <StateChip state="running" provenAt={row.proven_at} allowedSeconds={processProofSeconds(cluster)} />
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
        </tbody>
      </table>
    </div>
  );
}
