import { Button, Group, NativeSelect, VisuallyHidden } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { useMayOperate } from "@/api/session";
import type { PolicyVersionRow, RunDetail, WeightSyncRow, WeightsCommands, WorkerRow } from "@/api/types";
import { Chip } from "@/components/chips";
import { type Column, DataTable } from "@/components/DataTable";
import { RECORDED_IN_EVENTS, ReasonDialog } from "@/components/Dialog";
import { Age } from "@/components/inline";
import { EmptyState, ErrorState, Panel, Panels } from "@/components/panels";
import { bytes, counted, duration, number, policyStep, versionName, visible } from "@/format";
import { usePart, usePartChangeFeed } from "@/live/live";
import { nameOf } from "@/pages/run/curriculum/steering";
import { useRun } from "@/pages/run/RunContext";
import {
  deliveriesQuery,
  EVERY_MS,
  ordersQuery,
  useOrderWeights,
  versionQuery,
  versionsQuery,
  type WeightsCommand,
} from "@/pages/run/weights/api";
import {
  appliedOf,
  asOfFrame,
  deliveryOf,
  isHeldBack,
  pinEffect,
  pinnable,
  pinText,
  REPORT_SECONDS,
  type Replica,
  replicasOf,
  whyNotOrder,
  withNewest,
} from "@/pages/run/weights/commands";
import { trainerCommand } from "@/runs/words";
import { isOver } from "@/theme/chips";
import css from "./weights.module.css";

const NO_WORKERS: never[] = [];

type Verb = WeightsCommand["verb"];
const TITLES: Record<Verb, [title: string, submit: string]> = {
  pin: ["Pin a version", "Pin"],
  unpin: ["Follow the newest version", "Follow newest"],
  sync: ["Reload weights", "Reload"],
};

type OrderProps = { verb: Verb; run: RunDetail; orders: WeightsCommands; versions: PolicyVersionRow[]; onClose: () => void };

/** Pin a version and show its effect on staleness, follow the newest version again, or reload the current one. */
function OrderDialog({ verb, run, orders, versions, onClose }: OrderProps) {
  const give = useOrderWeights(run.name);
  const choices = pinnable(versions, { run, orders });
  const [chosen, setChosen] = useState(
    String(choices.some(({ step }) => step === orders.acting_step) ? orders.acting_step : (choices[0]?.step ?? "")),
  );
  const step = chosen === "" ? null : Number(chosen);
  const [title, submit] = TITLES[verb];
  return (
    <ReasonDialog
      title={title}
      asking={give}
      refused="Weights not changed"
      submit={submit}
      recordedIn={RECORDED_IN_EVENTS}
      isReady={verb !== "pin" || (step !== null && step !== orders.pinned_step)}
      onSubmit={(reason) => give.mutate({ verb, reason, step: verb === "pin" ? (step ?? undefined) : undefined }, { onSuccess: onClose })}
      onClose={onClose}
    >
      {verb === "pin" && (
        <>
          <NativeSelect
            label="Version"
            description={
              run.kind === "language"
                ? "The newest or the pinned version; the inference engine of a language run cannot load earlier ones."
                : "Versions whose file is still stored. Workers load them even if they are older than the current one."
            }
            value={chosen}
            data={choices.map((version) => ({
              value: String(version.step),
              label: `${versionName(version.epoch, version.step)}${version.step === run.policy_step ? ", the newest" : ""}`,
            }))}
            onChange={(event) => setChosen(event.currentTarget.value)}
            data-autofocus
          />
          <p className="soft" role="status">
            {step === null ? "No stored version can be loaded." : pinEffect({ step, newest: run.policy_step, most: run.max_staleness })}
          </p>
          <p className="small faint">The pin survives restarts of workers, manager and server, and ends with this epoch.</p>
        </>
      )}
      {verb === "unpin" && (
        <p className="soft">
          Each worker loads version {policyStep(orders.newest_step)} during its rollouts, and each later one when published.
        </p>
      )}
      {verb === "sync" && (
        <p className="soft">
          The fleet downloads version {policyStep(orders.acting_step)} again and verifies it against its manifest. Every worker then reloads
          it during its rollouts, without data loss or interruption. Workers that lag behind retry.
        </p>
      )}
    </ReasonDialog>
  );
}

/** The number of workers that have the requested version. */
function Applied({ run, orders, workers }: { run: string; orders: WeightsCommands; workers: WorkerRow[] }) {
  const { there, done } = appliedOf(orders, workers);
  if (there === 0) return <p className="small soft">No workers at present; new workers load version {policyStep(orders.acting_step)}.</p>;
  return (
    <p className="small" role="status" data-applied={`${done}/${there}`}>
      <b data-num>
        {number(done)} of {number(there)}
      </b>{" "}
      {there === 1 ? "worker uses" : "workers use"} version {policyStep(orders.acting_step)}
      {orders.number > 0 && ` under order ${number(orders.number)}`}.{" "}
      {done < there && (
        <Link to="/runs/$name/fleet" params={{ name: run }}>
          Versions of all workers
        </Link>
      )}
    </p>
  );
}

type OrdersProps = { run: RunDetail; orders: WeightsCommands; versions: PolicyVersionRow[]; workers: WorkerRow[] };

/** The requested weights version, its order, its progress, and the actions to change it. */
function Orders({ run, orders, versions, workers }: OrdersProps) {
  const [open, setOpen] = useState<Verb | null>(null);
  const why = whyNotOrder(run, useMayOperate());
  const isPinned = orders.pinned_step !== null;
  const pin = isPinned ? orders.results.find(({ kind }) => kind === "pin") : undefined;
  const buttons: [Verb, string][] = [
    ["pin", isPinned ? "Pin another version…" : "Pin a version…"],
    ...(isPinned ? ([["unpin", "Follow newest…"]] as [Verb, string][]) : []),
    ["sync", "Reload…"],
  ];
  return (
    <Panel
      title="Active weights"
      note={run.max_staleness === null ? "no staleness limit" : `staleness limit: ${counted(run.max_staleness, "version")}`}
    >
      <p data-pinned={isPinned || undefined}>
        {isPinned && (
          <Chip tone="held" sign="⊢">
            pinned
          </Chip>
        )}{" "}
        {pinText(orders)}
        {pin && (
          <span className="soft">
            {" "}
            By {nameOf(pin.actor)}, <Age at={pin.at} suffix=" ago" />
            {pin.reason && `: ${visible(pin.reason)}`}.
          </span>
        )}
      </p>
      {orders.pinned_step !== null && (
        <p className="small soft">{pinEffect({ step: orders.pinned_step, newest: orders.newest_step, most: run.max_staleness })}</p>
      )}
      {!isOver(run.status) && <Applied run={run.name} orders={orders} workers={workers} />}
      <Group gap="xs" mt="sm">
        {buttons.map(([verb, label]) => (
          <Button
            key={verb}
            size="compact-sm"
            variant="default"
            disabled={why !== ""}
            aria-describedby={why ? "why-not-order" : undefined}
            onClick={() => setOpen(verb)}
          >
            {label}
          </Button>
        ))}
        {why && (
          <span id="why-not-order" className="small faint">
            {why}
          </span>
        )}
      </Group>
      {open && <OrderDialog verb={open} run={run} orders={orders} versions={versions} onClose={() => setOpen(null)} />}
    </Panel>
  );
}

type Facts = { run: RunDetail; orders: WeightsCommands | undefined; deliveries: WeightSyncRow[] };

/** The versions: which one workers should use, and how many have each. */
function columnsOf({ run, orders, deliveries }: Facts): Column<PolicyVersionRow>[] {
  const isOfRun = ({ epoch }: PolicyVersionRow) => epoch === run.epoch;
  const isBack = (version: PolicyVersionRow) => isHeldBack(version, orders, run.epoch);
  return [
    { label: "Version", isNumber: true, cell: ({ epoch, step }) => <b>{versionName(epoch, step)}</b> },
    {
      ...{ id: "current", label: <VisuallyHidden>Current</VisuallyHidden>, className: "nowrap" },
      cell: (version) => (
        <>
          {isOfRun(version) && version.step === run.policy_step && (
            <Chip tone={isBack(version) ? "quiet" : "good"} sign={isBack(version) ? "◌" : "●"}>
              {isBack(version) ? "newest" : "current"}
            </Chip>
          )}{" "}
          {isOfRun(version) && version.step === orders?.pinned_step && (
            <Chip tone="held" sign="⊢">
              pinned
            </Chip>
          )}
          {isBack(version) && <span className="small"> not distributed</span>}
        </>
      ),
    },
    {
      ...{ label: "Published", isNumber: true, value: ({ published_at }) => published_at },
      cell: ({ published_at }) => <Age at={published_at} suffix=" ago" />,
    },
    { label: "Size", isNumber: true, value: (version) => version.size_bytes, cell: ({ size_bytes }) => bytes(size_bytes) },
    { label: "Trainer", className: "nowrap", value: ({ trainer }) => trainer },
    {
      ...{ label: "Workers", isNumber: true, title: "Workers that have loaded the version, of those that reported it" },
      cell: (version) => {
        const { loaded, reported } = deliveryOf(version, deliveries);
        return reported === 0 ? "–" : `${loaded} of ${reported}`;
      },
    },
    {
      ...{ label: "Slowest", className: "nowrap", isNumber: true, title: "From publication until the last worker has loaded the version" },
      cell: (version) => {
        const { slowest, seconds } = deliveryOf(version, deliveries);
        if (seconds !== null && seconds < REPORT_SECONDS) return "< 1 s";
        return `${duration(seconds)}${slowest === null ? "" : `, worker ${slowest}`}`;
      },
    },
  ];
}

const REPLICAS: Column<Replica>[] = [
  { label: "Address", className: "nowrap", value: ({ address }) => address },
  { label: "Version", isNumber: true, cell: ({ version }) => (version ? versionName(...version) : "–") },
  {
    ...{ label: "Last contact", isNumber: true, value: ({ contactAt }) => contactAt },
    cell: ({ contactAt }) => (contactAt ? <Age at={contactAt} suffix=" ago" /> : "–"),
  },
  { label: "Problem", value: ({ error }) => error },
];

/** Published weights and their distribution to workers. */
export function WeightsTab() {
  const { run, fleet } = useRun();
  const { version: chosen } = useSearch({ from: "/shell/runs/$name/weights" });
  const keys = ["versions", "deliveries", "weights-orders"].map((key) => [key, run.name]);
  const refetchInterval = usePartChangeFeed(`run:${run.name}`, "weights", EVERY_MS, ...keys);
  const pages = useInfiniteQuery({ ...versionsQuery(run.name), refetchInterval });
  const deliveries = useQuery({ ...deliveriesQuery(run.name), refetchInterval }).data ?? [];
  const read = useQuery({ ...ordersQuery(run.name), refetchInterval, enabled: run.kind !== "outside" });
  const frame = usePart(`run:${run.name}`, "weights");
  const orders = read.data && asOfFrame(read.data, frame);
  const workers = fleet?.workers ?? NO_WORKERS;
  const replicas = replicasOf(workers);
  const versions =
    pages.data &&
    withNewest(
      pages.data.pages.flatMap((page) => page.results),
      frame?.newest,
    );
  const isOlder = versions !== undefined && chosen !== undefined && !versions.some(({ id }) => id === chosen);
  const older = useQuery(versionQuery(run.name, chosen ?? 0, isOlder)).data;
  return (
    <Panels>
      {read.error && <ErrorState title="Weight orders unavailable" error={read.error} />}
      {orders && <Orders run={run} orders={orders} versions={versions ?? []} workers={workers} />}
      <Panel title="Versions" note="newest first">
        <DataTable
          label="Versions, newest first"
          className={css.versions}
          rows={isOlder && older ? [...versions, older] : versions}
          error={pages.error}
          columns={columnsOf({ run, orders, deliveries })}
          keyOf={({ id }) => id}
          attributes={(version) => ({
            "data-version": version.step,
            "data-held-back": isHeldBack(version, orders, run.epoch) || undefined,
            "aria-current": version.id === chosen ? "true" : undefined,
          })}
          pages={pages}
          empty={
            <EmptyState
              title="No weights published yet"
              command={trainerCommand(run, location.origin)}
              needs={{ scope: "trainer", run: run.name }}
            >
              A trainer publishes its initial weights as version 0; until then no data is generated.
            </EmptyState>
          }
        />
      </Panel>
      {replicas.length > 0 && (
        <Panel title="Inference engines" note="as the workers last reached them">
          <DataTable
            label="Inference engines"
            rows={replicas}
            columns={REPLICAS}
            keyOf={({ address }) => address}
            attributes={({ address }) => ({ "data-replica": address })}
          />
        </Panel>
      )}
    </Panels>
  );
}
