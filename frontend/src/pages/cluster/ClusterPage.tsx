import type { ReactNode } from "react";
import type { BrokerPart, Cluster, DatabasePart, StoragePart } from "@/api/deck";
import { Age } from "@/components/Age";
import { ErrorState } from "@/components/ErrorState";
import { useNow } from "@/components/now";
import { Panel } from "@/components/Panel";
import { Skeletons } from "@/components/Skeletons";
import { bytes, count, dayAndClock, duration, number } from "@/format";
import { useCluster } from "@/live/deck";
import { Bar } from "@/pages/cluster/Bar";
import { GrowthPanel } from "@/pages/cluster/GrowthPanel";
import { NoticePanel } from "@/pages/cluster/NoticePanel";
import { PartPanel } from "@/pages/cluster/PartPanel";
import { Processes } from "@/pages/cluster/Processes";
import { verdict } from "@/pages/cluster/parts";
import { Tables } from "@/pages/cluster/Tables";
import { Topology } from "@/pages/cluster/Topology";
import css from "./cluster.module.css";

/** The deck is looked at every five seconds; after so long without a word nobody looks. */
const SILENT_MS = 20_000;
/** A worker looks at Ray when somebody looks here, else once a minute. */
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
        ["At work", number(part.active)],
        ["Idle in a transaction", number(part.idle_in_transaction)],
        ["Oldest transaction", part.oldest_transaction_seconds == null ? "none open" : duration(part.oldest_transaction_seconds)],
        ["Size", part.size_bytes == null ? "takes too long to count" : bytes(part.size_bytes)],
        ["Replicas", part.replicas ? number(part.replicas) : "none"],
        ["Oldest xmin", part.oldest_xmin_transactions == null ? "not told" : `${count(part.oldest_xmin_transactions)} transactions`],
        ["Write-ahead log", part.wal_bytes == null ? "not told" : bytes(part.wal_bytes)],
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
        ["Memory", <Bar key="bar" label="Memory of the broker" used={part.memory_bytes} total={part.memory_at_most_bytes} text={text} />],
        ["Clients", number(part.clients)],
        ["Jobs that wait", number(part.waiting_jobs)],
        ["Up for", duration(part.uptime_seconds)],
      ]}
    />
  );
}

function Storage({ part }: { part: StoragePart }) {
  const used = part.total_bytes != null && part.free_bytes != null ? part.total_bytes - part.free_bytes : null;
  return (
    <PartPanel
      title="Storage of payloads"
      part={part}
      address={part.place}
      className="span-4"
      facts={[
        ["Kind", part.kind === "s3" ? "a bucket" : "files"],
        ["Payloads kept", bytes(part.kept_bytes)],
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
              ["Pushes are refused below", `${bytes(part.keep_free_bytes)} free`],
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
          ["GPUs reserved", sum("gpus") > 0 ? `${number(sum("gpus_used"))} of ${number(sum("gpus"))}` : "there are none"],
        ];
  return (
    <PartPanel title="Ray" part={part} address={part.address} proofSeconds={RAY_PROOF_SECONDS} className="span-12" facts={facts}>
      {part.state === "absent" && (
        <p className="soft small">
          Runs that push from outside need none. With <code>RAY_ADDRESS</code> set, fleets are launched there.
        </p>
      )}
      <Topology nodes={part.nodes} placements={placements} cordons={cordons} />
    </PartPanel>
  );
}

/** What the deck is made of, and whether each part of it lives. */
export function ClusterPage() {
  const { cluster: data, refused } = useCluster();
  const now = useNow();
  const found = data && verdict(data);
  return (
    <>
      <div className="page-title">
        <h1>Cluster</h1>
        {data && found && (
          <span className={`chip tone-${found.tone}`} data-verdict={found.tone} role="status">
            <span className="chip-sign" aria-hidden="true">
              {found.sign}
            </span>
            <span className={css.verdict}>{found.text}</span>
          </span>
        )}
        <span className="spacer" />
        {data && (
          <span className="faint tiny">
            looked at <Age at={data.at} suffix=" ago" />
          </span>
        )}
      </div>
      {refused && !data && <ErrorState title="The cluster cannot be shown" error={refused} />}
      {data && now - Date.parse(data.at) > SILENT_MS && (
        <ErrorState
          title="The deck does not say how it is just now; this is what it last said"
          error={`It was looked at ${dayAndClock(data.at)}.`}
        />
      )}
      {!data && !refused && <Skeletons heights={[190, 190, 150]} />}
      {data && (
        <div className="charts">
          <Panel
            title="Processes"
            note={`each says every ${number(data.process_word_seconds)} s that it lives; gone ones show for an hour`}
            className="span-12"
          >
            {data.jobs.state !== "up" && (
              <p className={`held small ${css.problem}`}>Background jobs: {data.jobs.problem || "nobody answers"}.</p>
            )}
            <Processes cluster={data} />
          </Panel>
          <Database part={data.database} />
          <Broker part={data.broker} />
          <Storage part={data.storage} />
          <GrowthPanel growth={data.growth} />
          <Tables tables={data.database.tables} />
          <Ray data={data} />
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
        </div>
      )}
    </>
  );
}
