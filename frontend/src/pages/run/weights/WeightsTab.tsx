import { Button, NativeSelect, VisuallyHidden } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { useMayOperate } from "@/api/session";
import type { PolicyVersionRow, RunDetail, WeightSyncRow, WeightsCommands, WorkerRow } from "@/api/types";
import { Chip } from "@/components/chips";
import { type Column, DataTable } from "@/components/DataTable";
import { RECORDED_IN_EVENTS, ReasonDialog } from "@/components/Dialog";
import { Age } from "@/components/inline";
import { ErrorState, Panel, Panels } from "@/components/panels";
import { bytes, counted, duration, number, policyStep, versionName, visible } from "@/format";
import { usePart, usePartChangeFeed } from "@/live/live";
import { nameOf } from "@/pages/run/curriculum/steering";
import { NoDataYet } from "@/pages/run/NoDataYet";
import { useRun, useRunPart } from "@/pages/run/RunContext";
import { deliveriesQuery, EVERY_MS, ordersQuery, usePin, versionQuery, versionsQuery } from "@/pages/run/weights/api";
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
import { isOver } from "@/theme/chips";
import css from "./weights.module.css";

const NO_WORKERS: never[] = [];

type OrdersProps = { run: RunDetail; orders: WeightsCommands; versions: PolicyVersionRow[]; workers: WorkerRow[] };

/** Pin a version and show its effect on staleness, or follow the newest version again. */
function PinDialog({ run, orders, versions, isPin, onClose }: Omit<OrdersProps, "workers"> & { isPin: boolean; onClose: () => void }) {
  const pin = usePin(run.name);
  const choices = pinnable(versions, { run, orders });
  const [chosen, setChosen] = useState(
    String(choices.some(({ step }) => step === orders.acting_step) ? orders.acting_step : (choices[0]?.step ?? "")),
  );
  const step = chosen === "" ? null : Number(chosen);
  return (
    <ReasonDialog
      title={isPin ? "Pin a version" : "Follow the newest version"}
      asking={pin}
      refused="Weights not changed"
      submit={isPin ? "Pin" : "Follow newest"}
      recordedIn={RECORDED_IN_EVENTS}
      isReady={!isPin || (step !== null && step !== orders.pinned_step)}
      onSubmit={(reason) => pin.mutate({ step: isPin ? step : null, reason }, { onSuccess: onClose })}
      onClose={onClose}
    >
      {isPin ? (
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
            {step === null ? "No stored version can be loaded." : pinEffect({ step, newest: run.policy_step, most: run.max_staleness })} The
            pin ends with this epoch.
          </p>
        </>
      ) : (
        `Each worker loads version ${policyStep(orders.newest_step)} during its rollouts, and each later one when published.`
      )}
    </ReasonDialog>
  );
}

/** The requested weights version, its order, its progress, and the actions to change it. */
function Orders({ run, orders, versions, workers }: OrdersProps) {
  const [open, setOpen] = useState<"pin" | "unpin" | null>(null);
  const why = whyNotOrder(run, useMayOperate());
  const { pinned_step, acting_step } = orders;
  const isPinned = pinned_step !== null;
  const pin = isPinned ? orders.results.find(({ kind }) => kind === "pin") : undefined;
  const { there, done } = appliedOf(orders, workers);
  const button = (verb: "pin" | "unpin", label: string) => (
    <Button size="compact-sm" variant="default" disabled={why !== ""} title={why || undefined} onClick={() => setOpen(verb)}>
      {label}
    </Button>
  );
  return (
    <Panel
      title="Active weights"
      note={run.max_staleness === null ? "no staleness limit" : `staleness limit: ${counted(run.max_staleness, "version")}`}
      aside={
        <>
          {why && <span className="small faint">{why}</span>}
          {button("pin", isPinned ? "Pin another version…" : "Pin a version…")}
          {isPinned && button("unpin", "Follow newest…")}
        </>
      }
    >
      <p data-pinned={isPinned || undefined}>
        {isPinned && <Pinned />} {pinText(orders)}
        {pin && (
          <span className="soft">
            {" "}
            By {nameOf(pin.actor)}, <Age at={pin.at} suffix=" ago" />
            {pin.reason && `: ${visible(pin.reason)}`}.
          </span>
        )}
      </p>
      {isPinned && <p className="small soft">{pinEffect({ step: pinned_step, newest: orders.newest_step, most: run.max_staleness })}</p>}
      {!isOver(run.status) && (
        <p className="small" role="status" data-applied={`${done}/${there}`}>
          {there === 0
            ? `No workers at present; new workers load version ${policyStep(acting_step)}.`
            : `${number(done)} of ${number(there)} ${there === 1 ? "worker uses" : "workers use"} version ${policyStep(acting_step)}${orders.number > 0 ? ` under order ${number(orders.number)}` : ""}.`}
        </p>
      )}
      {open && <PinDialog run={run} orders={orders} versions={versions} isPin={open === "pin"} onClose={() => setOpen(null)} />}
    </Panel>
  );
}

const Pinned = () => (
  <Chip tone="held" sign="⊢">
    pinned
  </Chip>
);

type Facts = { run: RunDetail; orders: WeightsCommands | undefined; deliveries: WeightSyncRow[] };

/** The versions: which one workers should use, and how many have each. */
function columnsOf({ run, orders, deliveries }: Facts): Column<PolicyVersionRow>[] {
  const isOfRun = ({ epoch }: PolicyVersionRow) => epoch === run.epoch;
  const isBack = (version: PolicyVersionRow) => isHeldBack(version, orders, run.epoch);
  return [
    { label: "Version", isNumber: true, cell: ({ epoch, step }) => <b>{versionName(epoch, step)}</b> },
    {
      id: "current",
      label: <VisuallyHidden>Current</VisuallyHidden>,
      className: "nowrap",
      cell: (version) => (
        <>
          {isOfRun(version) && version.step === run.policy_step && (
            <Chip tone={isBack(version) ? "quiet" : "good"} sign={isBack(version) ? "◌" : "●"}>
              {isBack(version) ? "newest" : "current"}
            </Chip>
          )}{" "}
          {isOfRun(version) && version.step === orders?.pinned_step && <Pinned />}
          {isBack(version) && <span className="small"> not distributed</span>}
        </>
      ),
    },
    {
      label: "Published",
      isNumber: true,
      value: ({ published_at }) => published_at,
      cell: ({ published_at }) => <Age at={published_at} suffix=" ago" />,
    },
    { label: "Size", isNumber: true, value: (version) => version.size_bytes, cell: ({ size_bytes }) => bytes(size_bytes) },
    { label: "Trainer", className: "nowrap", value: ({ trainer }) => trainer },
    {
      label: "Workers",
      isNumber: true,
      title: "Workers that have loaded the version, of those that reported it",
      cell: (version) => {
        const { loaded, reported } = deliveryOf(version, deliveries);
        return reported === 0 ? "–" : `${loaded} of ${reported}`;
      },
    },
    {
      label: "Slowest",
      className: "nowrap",
      isNumber: true,
      title: "From publication until the last worker has loaded the version",
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
    label: "Last contact",
    isNumber: true,
    value: ({ contactAt }) => contactAt,
    cell: ({ contactAt }) => (contactAt ? <Age at={contactAt} suffix=" ago" /> : "–"),
  },
  { label: "Problem", value: ({ error }) => error },
];

/** Published weights and their distribution to workers. */
export function WeightsTab() {
  const { run } = useRun();
  const fleet = useRunPart("fleet");
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
            <NoDataYet title="No weights published yet">
              A trainer publishes its initial weights as version 0; until then no data is generated.
            </NoDataYet>
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
