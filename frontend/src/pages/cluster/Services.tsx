import type { ReactNode } from "react";
import type { Cluster, Part } from "@/api/deployment";
import { type Column, DataTable } from "@/components/DataTable";
import { Line } from "@/components/Lanes";
import { StateChip } from "@/components/StateChip";
import { bytes, duration, number, percent, visible } from "@/format";
import { share } from "@/pages/cluster/parts";

/** Covers two polling intervals and a slow poll. */
const PROOF_SECONDS = 20;
/** A worker polls Ray while the page is open, else once a minute. */
const RAY_PROOF_SECONDS = 90;
const TIGHT = 0.9;

type Service = {
  id: string;
  title: string;
  part: Part;
  address?: string | null;
  use?: [part: number | null, words: string];
  facts: string[];
};

function servicesOf({ database, broker, storage, ray, jobs, versions }: Cluster): Service[] {
  const used = storage.total_bytes != null && storage.free_bytes != null ? storage.total_bytes - storage.free_bytes : null;
  const alive = ray.nodes.filter((node) => node.alive).length;
  return [
    {
      ...{ id: "database", title: `PostgreSQL ${database.version ?? ""}`, part: database, address: database.address },
      use: [
        share(database.connections, database.connections_at_most),
        `${number(database.connections)} of ${number(database.connections_at_most)} connections`,
      ],
      facts: [
        `${number(database.active)} active, ${number(database.idle_in_transaction)} idle in a transaction`,
        ...(database.oldest_transaction_seconds == null ? [] : [`oldest transaction ${duration(database.oldest_transaction_seconds)}`]),
        ...(database.size_bytes == null ? [] : [bytes(database.size_bytes)]),
        ...(database.replicas ? [`${number(database.replicas)} replicas`] : []),
      ],
    },
    {
      ...{ id: "broker", title: `${broker.product ?? "Valkey or Redis"} ${broker.version ?? ""}`, part: broker, address: broker.address },
      use: [
        share(broker.memory_bytes, broker.memory_at_most_bytes),
        `${bytes(broker.memory_bytes)}${broker.memory_at_most_bytes ? ` of ${bytes(broker.memory_at_most_bytes)}` : ", no limit"}`,
      ],
      facts: [
        `${number(broker.clients)} clients`,
        `${number(broker.waiting_jobs)} queued jobs`,
        `up for ${duration(broker.uptime_seconds)}`,
      ],
    },
    {
      ...{ id: "storage", title: "Payload storage", part: storage, address: storage.place },
      use:
        storage.kind === "s3"
          ? undefined
          : [share(used, storage.total_bytes), `${bytes(storage.free_bytes)} free of ${bytes(storage.total_bytes)}`],
      facts: [
        `${storage.kind === "s3" ? "bucket" : "files"}, ${bytes(storage.kept_bytes)} stored`,
        ...(storage.kind === "files" ? [`${bytes(storage.keep_free_bytes)} always left free`] : []),
      ],
    },
    {
      ...{ id: "ray", title: "Ray", part: ray, address: ray.address },
      facts: ray.nodes.length > 0 ? [`${number(alive)} of ${number(ray.nodes.length)} nodes alive`] : [],
    },
    {
      ...{ id: "jobs", title: "Background jobs", part: jobs },
      facts: Object.entries(versions).map(([name, version]) => `${name} ${version}`),
    },
  ];
}

function Facts({ part, facts, address }: Service): ReactNode {
  const isOld = part.state !== "up" && part.confirmed_at !== null;
  return (
    <>
      {part.problem && <div className={part.state === "absent" ? "soft" : "held"}>{visible(part.problem)}</div>}
      {(part.state === "up" || isOld) && (
        <div className={isOld ? "faint" : "soft"}>
          {isOld && "Last successful check: "}
          {facts.map(visible).join(" · ")}
        </div>
      )}
      {address && <div className="mono tiny faint">{visible(address)}</div>}
    </>
  );
}

const COLUMNS: Column<Service>[] = [
  { id: "service", label: "Service", cell: ({ title }) => <b>{visible(title.trim())}</b>, value: ({ title }) => title },
  {
    ...{ id: "state", label: "State", value: ({ part }: Service) => part.state },
    cell: ({ id, part }) => (
      <StateChip
        state={part.state}
        provenAt={part.confirmed_at}
        allowedSeconds={id === "ray" ? RAY_PROOF_SECONDS : PROOF_SECONDS}
        reason={part.problem}
      />
    ),
  },
  {
    ...{ id: "use", label: "Use", className: "wide-only nowrap", value: ({ use }: Service) => use?.[0] },
    cell: ({ use, part }) => use && (part.state === "up" || part.confirmed_at !== null) && <Use part={use[0]} words={use[1]} />,
  },
  { id: "facts", label: "Details", className: "anywhere small", cell: (service) => <Facts {...service} /> },
];

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

/** The backing services: state, use and figures of the last check. */
export function Services({ cluster }: { cluster: Cluster }) {
  return (
    <DataTable
      label="Services"
      rows={servicesOf(cluster)}
      columns={COLUMNS}
      keyOf={({ id }) => id}
      attributes={({ id }) => ({ "data-part": id })}
    />
  );
}
