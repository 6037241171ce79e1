import { Button, Space, TextInput } from "@mantine/core";
import { useState } from "react";
import { type Cluster, type Notice, type Part, type PartExit, useClearNotice, useSetNotice } from "@/api/deployment";
import { TAKES_OPERATOR, useMayOperate } from "@/api/session";
import { Chip, StateChip } from "@/components/chips";
import { type Column, DataTable } from "@/components/DataTable";
import { ReasonDialog } from "@/components/Dialog";
import { Age, useNow } from "@/components/inline";
import { ErrorState, PageTitle, Panel, Panels, Skeletons } from "@/components/panels";
import { bytes, clock, dayAndClock, duration, number, visible } from "@/format";
import { useCluster, useIsOutdated, useNotice } from "@/live/live";
import { Machines, Use } from "@/pages/cluster/Machines";
import { healthOf, share } from "@/pages/cluster/parts";
import css from "./cluster.module.css";

/** The cluster is polled every 5 s; without data for this long it counts as stale. */
const SILENT_MS = 20_000;
/** Covers two polling intervals and a slow poll. */
const PROOF_SECONDS = 20;
/** A worker polls Ray while the page is open, else once a minute. */
const RAY_PROOF_SECONDS = 90;

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

function Details({ part, facts, address }: Service) {
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

const SERVICES: Column<Service>[] = [
  { label: "Service", cell: ({ title }) => <b>{visible(title.trim())}</b>, value: ({ title }) => title },
  {
    ...{ label: "State", value: ({ part }: Service) => part.state },
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
    ...{ label: "Use", className: "mantine-visible-from-sm nowrap", value: ({ use }: Service) => use?.[0] },
    cell: ({ use, part }) => use && (part.state === "up" || part.confirmed_at !== null) && <Use part={use[0]} words={use[1]} />,
  },
  { label: "Details", className: "anywhere small", cell: (service) => <Details {...service} /> },
];

const EXITS: Column<PartExit>[] = [
  {
    ...{ label: "Part", className: css.process, value: ({ part }) => part },
    cell: ({ part, host }) => (
      <>
        <b>{visible(part)}</b> <span className="soft small anywhere">{visible(host)}</span>
      </>
    ),
  },
  {
    ...{ label: "Last exit", className: "soft", value: ({ last_at }) => last_at },
    cell: ({ last_at }) => <Age at={last_at} suffix=" ago" />,
  },
  {
    ...{ label: "Exits", value: ({ exits }) => exits },
    cell: ({ exits, first_at }) => (
      <>
        {number(exits)}
        {exits > 1 && <span className="faint small"> since {clock(first_at)}</span>}
      </>
    ),
  },
  {
    ...{ label: "Reason", className: "anywhere" },
    cell: ({ reason, log }) => (
      <>
        {visible(reason)}
        {log && (
          <details className="small">
            <summary>Last lines of the log</summary>
            <pre className={css.log} tabIndex={0}>
              {visible(log)}
            </pre>
          </details>
        )}
      </>
    ),
  },
];

/** A time as the value of a field of date and time: in this time zone, in minutes. */
function localTime(at: string): string {
  const time = new Date(at);
  return new Date(time.getTime() - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** Set, change or remove the notice that is shown above every page. */
function NoticeDialog({ notice, onClose }: { notice: Notice | null; onClose: () => void }) {
  const [text, setText] = useState(notice?.text ?? "");
  const [until, setUntil] = useState(notice?.until ? localTime(notice.until) : "");
  const set = useSetNotice();
  const clear = useClearNotice();
  const removes = notice !== null && text.trim() === "";
  const end = until ? new Date(until).toISOString() : null;
  const submit = (reason: string) => {
    if (removes) clear.mutate(reason, { onSuccess: onClose });
    else set.mutate({ text: text.trim(), reason, until: end }, { onSuccess: onClose });
  };
  return (
    <ReasonDialog
      title="Notice to all users"
      asking={removes ? clear : set}
      refused={removes ? "Notice not removed" : "Notice not set"}
      submit={removes ? "Remove notice" : "Set notice"}
      isReady={removes || text.trim() !== ""}
      onSubmit={submit}
      onClose={onClose}
    >
      {notice && (
        <p className="soft small anywhere">
          Set by {visible(notice.set_by)}
          {notice.reason && `: ${visible(notice.reason)}`}. An empty text removes it.
        </p>
      )}
      <TextInput
        label="Notice"
        description="Shown on every page until it expires or is removed."
        value={text}
        maxLength={300}
        data-autofocus
        onChange={(event) => setText(event.currentTarget.value)}
      />
      <TextInput
        mt="md"
        type="datetime-local"
        label="Until"
        description="In this browser's time zone; empty: until removed."
        value={until}
        onChange={(event) => setUntil(event.currentTarget.value)}
      />
    </ReasonDialog>
  );
}

/** The parts of the deployment and their health. */
export function ClusterPage() {
  const isOutdated = useIsOutdated();
  const { cluster: data, refused } = useCluster();
  const now = useNow();
  const mayOperate = useMayOperate();
  const notice = useNotice();
  const [isNoticeOpen, setNoticeOpen] = useState(false);
  const found = data && healthOf(data, isOutdated);
  return (
    <>
      <PageTitle title="Cluster">
        {data && found && (
          <Chip tone={found.tone} sign={found.sign} data-health={found.tone} role="status">
            <span className={css.health}>{found.text}</span>
          </Chip>
        )}
        <Space flex={1} />
        {data && (
          <span className="faint tiny">
            updated <Age at={data.at} suffix=" ago" />
          </span>
        )}
        <Button
          size="compact-sm"
          variant="default"
          disabled={!mayOperate || notice === undefined}
          title={mayOperate ? "Announce maintenance or other events above every page." : TAKES_OPERATOR}
          onClick={() => setNoticeOpen(true)}
        >
          Notice…
        </Button>
      </PageTitle>
      {isNoticeOpen && notice !== undefined && <NoticeDialog notice={notice} onClose={() => setNoticeOpen(false)} />}
      {refused && !data && <ErrorState title="Cluster unavailable" error={refused} />}
      {data && now - Date.parse(data.at) > SILENT_MS && (
        <ErrorState title="Cluster status is out of date" error={`Last updated ${dayAndClock(data.at)}.`} />
      )}
      {!data && !refused && <Skeletons heights={[260, 260, 100]} />}
      {data && (
        <Panels>
          <Panel
            title="Machines"
            note={`with their processes; heartbeat every ${number(data.process_word_seconds)} s, exited processes are listed for an hour`}
          >
            <Machines cluster={data} />
            {data.ray.state === "absent" && (
              <p className="soft small">
                Outside runs need no Ray cluster. Set <code>RAY_ADDRESS</code> to launch fleets on one.
              </p>
            )}
            {data.exits.length > 0 && (
              <DataTable
                label="Exits"
                rows={data.exits}
                columns={EXITS}
                keyOf={({ part, host }) => `${part} ${host}`}
                attributes={({ part }) => ({ "data-exit": part })}
              />
            )}
          </Panel>
          <Panel title="Services" note="checked every 5 s while this page is open">
            <DataTable
              label="Services"
              rows={servicesOf(data)}
              columns={SERVICES}
              keyOf={({ id }) => id}
              attributes={({ id }) => ({ "data-part": id })}
            />
          </Panel>
        </Panels>
      )}
    </>
  );
}
