import type { ReactNode } from "react";
import type { BrokerPart, Cluster, DatabasePart, StoragePart } from "@/api/deployment";
import { Age } from "@/components/Age";
import { Chip } from "@/components/Chip";
import { ErrorState } from "@/components/ErrorState";
import { useNow } from "@/components/now";
import { Panel } from "@/components/Panel";
import { Panels } from "@/components/Panels";
import { Skeletons } from "@/components/Skeletons";
import { bytes, dayAndClock, duration, number } from "@/format";
import { useCluster } from "@/live/deployment";
import { useIsOutdated } from "@/live/live";
import { Bar } from "@/pages/cluster/Bar";
import { Exits } from "@/pages/cluster/Exits";
import { MachineUsage } from "@/pages/cluster/MachineUsage";
import { NoticePanel } from "@/pages/cluster/NoticePanel";
import { PartPanel } from "@/pages/cluster/PartPanel";
import { Processes } from "@/pages/cluster/Processes";
import { healthOf } from "@/pages/cluster/parts";
import { Topology } from "@/pages/cluster/Topology";
import css from "./cluster.module.css";

/** The cluster is polled every 5 s; without data for this long it counts as stale. */
const SILENT_MS = 20_000;
/** A worker polls Ray while the page is open, else once a minute. */
const RAY_PROOF_SECONDS = 90;

function Database({ part }: { part: DatabasePart }) {
  return (
    <PartPanel
      title="PostgreSQL"
      part={part}
      address={part.address}
      className="span-4"
      facts={[
        ["Version", part.version ?? "–"],
        [
          "Connections",
          <Bar
            key="bar"
            label="Connections"
            used={part.connections}
            total={part.connections_at_most}
            text={`${number(part.connections)} of ${number(part.connections_at_most)}`}
          />,
        ],
        ["Active", number(part.active)],
        ["Idle in a transaction", number(part.idle_in_transaction)],
        ["Oldest transaction", part.oldest_transaction_seconds == null ? "none" : duration(part.oldest_transaction_seconds)],
        ["Size", part.size_bytes == null ? "not available" : bytes(part.size_bytes)],
        ["Replicas", part.replicas ? number(part.replicas) : "none"],
      ]}
    />
  );
}

function Broker({ part }: { part: BrokerPart }) {
  const text = part.memory_at_most_bytes
    ? `${bytes(part.memory_bytes)} of ${bytes(part.memory_at_most_bytes)}`
    : `${bytes(part.memory_bytes)}, no limit`;
  return (
    <PartPanel
      title={part.product ?? "Valkey or Redis"}
      part={part}
      address={part.address}
      className="span-4"
      facts={[
        ["Version", part.version ?? "–"],
        ["Memory", <Bar key="bar" label="Broker memory" used={part.memory_bytes} total={part.memory_at_most_bytes} text={text} />],
        ["Clients", number(part.clients)],
        ["Queued jobs", number(part.waiting_jobs)],
        ["Uptime", duration(part.uptime_seconds)],
      ]}
    />
  );
}

function Storage({ part }: { part: StoragePart }) {
  const used = part.total_bytes != null && part.free_bytes != null ? part.total_bytes - part.free_bytes : null;
  return (
    <PartPanel
      title="Payload storage"
      part={part}
      address={part.place}
      className="span-4"
      facts={[
        ["Kind", part.kind === "s3" ? "bucket" : "files"],
        ["Stored payloads", bytes(part.kept_bytes)],
        ...(part.kind === "files"
          ? ([
              [
                "Disk",
                <Bar
                  key="bar"
                  label="Disk"
                  used={used}
                  total={part.total_bytes}
                  text={`${bytes(part.free_bytes)} free of ${bytes(part.total_bytes)}`}
                />,
              ],
              ["Minimum free space", `${bytes(part.keep_free_bytes)}`],
            ] as [string, ReactNode][])
          : []),
      ]}
    />
  );
}

function Ray({ data: { ray: part, placements, cordons } }: { data: Cluster }) {
  const alive = part.nodes.filter((node) => node.alive);
  const sum = (name: "cpus" | "cpus_used" | "gpus" | "gpus_used") => alive.reduce((total, node) => total + node[name], 0);
  const facts: [string, string][] =
    part.nodes.length === 0
      ? []
      : [
          ["Nodes alive", `${alive.length} of ${part.nodes.length}`],
          ["CPUs reserved", `${number(sum("cpus_used"))} of ${number(sum("cpus"))}`],
          ["GPUs reserved", sum("gpus") > 0 ? `${number(sum("gpus_used"))} of ${number(sum("gpus"))}` : "none"],
        ];
  return (
    <PartPanel title="Ray" part={part} address={part.address} proofSeconds={RAY_PROOF_SECONDS} className="span-12" facts={facts}>
      {part.state === "absent" && (
        <p className="soft small">
          Outside runs need no Ray cluster. Set <code>RAY_ADDRESS</code> to launch fleets on one.
        </p>
      )}
      <Topology nodes={part.nodes} placements={placements} cordons={cordons} />
    </PartPanel>
  );
}

/** The parts of the deployment and their health. */
export function ClusterPage() {
  const isOutdated = useIsOutdated();
  const { cluster: data, refused } = useCluster();
  const now = useNow();
  const found = data && healthOf(data, isOutdated);
  return (
    <>
      <div className="page-title">
        <h1>Cluster</h1>
        {data && found && (
          <Chip tone={found.tone} sign={found.sign} data-health={found.tone} role="status">
            <span className={css.health}>{found.text}</span>
          </Chip>
        )}
        <span className="spacer" />
        {data && (
          <span className="faint tiny">
            updated <Age at={data.at} suffix=" ago" />
          </span>
        )}
      </div>
      {refused && !data && <ErrorState title="Cluster unavailable" error={refused} />}
      {data && now - Date.parse(data.at) > SILENT_MS && (
        <ErrorState title="Cluster status is out of date" error={`Last updated ${dayAndClock(data.at)}.`} />
      )}
      {!data && !refused && <Skeletons heights={[190, 190, 150]} />}
      {data && (
        <Panels>
          <Panel
            title="Processes"
            note={`heartbeat every ${number(data.process_word_seconds)} s; exited processes are listed for an hour`}
            className="span-12"
          >
            {data.jobs.state !== "up" && (
              <p className={`held small ${css.problem}`}>Background jobs: {data.jobs.problem || "no response"}.</p>
            )}
            <Processes cluster={data} />
            <Exits exits={data.exits} />
          </Panel>
          <Database part={data.database} />
          <Broker part={data.broker} />
          <Storage part={data.storage} />
          <Ray data={data} />
          <MachineUsage nodes={data.ray.nodes} cordons={data.cordons} />
          <NoticePanel />
          <Panel title="Versions" className="span-12">
            <dl className={css.versions}>
              {Object.entries(data.versions).map(([name, version]) => (
                <div key={name}>
                  <dt>{name}</dt>
                  <dd className="mono">{version}</dd>
                </div>
              ))}
            </dl>
          </Panel>
        </Panels>
      )}
    </>
  );
}
