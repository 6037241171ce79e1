import { Button, Code, List, Space, TextInput } from "@mantine/core";
import { useState } from "react";
import { type Cluster, type Notice, type Part, type PartExit, useClearNotice, useSetNotice } from "@/api/deployment";
import { TAKES_OPERATOR, useMayOperate } from "@/api/session";
import { Chip, StateChip } from "@/components/chips";
import { type Column, DataTable } from "@/components/DataTable";
import { ReasonDialog } from "@/components/Dialog";
import { Age } from "@/components/inline";
import { ErrorState, PageTitle, Panel, Panels, Skeletons } from "@/components/panels";
import { bytes, clock, counted, duration, number, visible } from "@/format";
import { useCluster, useIsOutdated, useNotice } from "@/live/live";
import { Machines, Use } from "@/pages/cluster/Machines";
import { healthOf, share } from "@/pages/cluster/parts";

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
      id: "database",
      title: `PostgreSQL ${database.version ?? ""}`,
      part: database,
      address: database.address,
      use: [
        share(database.connections, database.connections_at_most),
        `${number(database.connections)} of ${counted(database.connections_at_most, "connection")}`,
      ],
      facts: [
        `${number(database.active)} active, ${number(database.idle_in_transaction)} idle in a transaction`,
        ...(database.size_bytes == null ? [] : [bytes(database.size_bytes)]),
      ],
    },
    {
      id: "broker",
      title: `${broker.product ?? "Valkey or Redis"} ${broker.version ?? ""}`,
      part: broker,
      address: broker.address,
      use: [
        share(broker.memory_bytes, broker.memory_at_most_bytes),
        `${bytes(broker.memory_bytes)}${broker.memory_at_most_bytes ? ` of ${bytes(broker.memory_at_most_bytes)}` : ", no limit"}`,
      ],
      facts: [counted(broker.waiting_jobs, "queued job"), `up for ${duration(broker.uptime_seconds)}`],
    },
    {
      id: "storage",
      title: "Payload storage",
      part: storage,
      address: storage.place,
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
      id: "ray",
      title: "Ray",
      part: ray,
      address: ray.address,
      facts: ray.nodes.length > 0 ? [`${number(alive)} of ${counted(ray.nodes.length, "node")} alive`] : [],
    },
    {
      id: "jobs",
      title: "Background jobs",
      part: jobs,
      facts: Object.entries(versions).map(([name, version]) => `${name} ${version}`),
    },
  ];
}

function Details({ part, facts, address }: Service) {
  return (
    <>
      {part.problem && <div className={part.state === "absent" ? "soft" : "held"}>{visible(part.problem)}</div>}
      {part.state === "up" && <div className="soft">{facts.map(visible).join(" · ")}</div>}
      {address && <div className="mono tiny faint">{visible(address)}</div>}
    </>
  );
}

const SERVICES: Column<Service>[] = [
  { label: "Service", className: "nowrap", cell: ({ title }) => <b>{visible(title.trim())}</b>, value: ({ title }) => title },
  {
    label: "State",
    value: ({ part }: Service) => part.state,
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
    label: "Use",
    className: "mantine-visible-from-sm nowrap",
    value: ({ use }: Service) => use?.[0],
    cell: ({ use, part }) => use && (part.state === "up" || part.confirmed_at !== null) && <Use part={use[0]} words={use[1]} />,
  },
  { label: "Details", className: "anywhere small", cell: (service) => <Details {...service} /> },
];

/** Processes that ended by themselves, with the last lines of their logs. */
const Exits = ({ exits }: { exits: PartExit[] }) => (
  <List size="sm" mt="sm" aria-label="Exits">
    {exits.map(({ part, host, exits: times, first_at, last_at, reason, log }) => (
      <List.Item key={`${part} ${host}`} className="anywhere" data-exit={part}>
        <b>{visible(part)}</b> <span className="soft">{visible(host)}</span>: {counted(times, "exit")}
        {times > 1 && ` since ${clock(first_at)}`}, the last <Age at={last_at} suffix=" ago" />: {visible(reason)}
        {log && (
          <details>
            <summary>Last lines of the log</summary>
            <Code block mah="18rem" tabIndex={0}>
              {visible(log)}
            </Code>
          </details>
        )}
      </List.Item>
    ))}
  </List>
);

/** Set, change or remove the notice that is shown above every page. */
function NoticeDialog({ notice, onClose }: { notice: Notice | null; onClose: () => void }) {
  const [text, setText] = useState(notice?.text ?? "");
  const set = useSetNotice();
  const clear = useClearNotice();
  const removes = notice !== null && text.trim() === "";
  const submit = (reason: string) => {
    if (removes) clear.mutate(reason, { onSuccess: onClose });
    else set.mutate({ text: text.trim(), reason, until: null }, { onSuccess: onClose });
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
        description="Shown on every page until it is removed."
        value={text}
        maxLength={300}
        data-autofocus
        onChange={(event) => setText(event.currentTarget.value)}
      />
    </ReasonDialog>
  );
}

/** The parts of the deployment and their health. */
export function ClusterPage() {
  const isOutdated = useIsOutdated();
  const { cluster: data, refused } = useCluster();
  const mayOperate = useMayOperate();
  const notice = useNotice();
  const [isNoticeOpen, setNoticeOpen] = useState(false);
  const found = data && healthOf(data, isOutdated);
  return (
    <>
      <PageTitle title="Cluster">
        {data && found && (
          <Chip tone={found.tone} sign={found.sign} data-health={found.tone} role="status">
            <span style={{ whiteSpace: "normal" }}>{found.text}</span>
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
            {data.exits.length > 0 && <Exits exits={data.exits} />}
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
