import { Button, Group } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useMayOperate } from "@/api/session";
import type { PolicyVersionRow, RunDetail, WeightsCommands, WorkerRow } from "@/api/types";
import { Age } from "@/components/Age";
import { Chip } from "@/components/Chip";
import { ErrorState } from "@/components/ErrorState";
import { onDemand } from "@/components/onDemand";
import { Panel } from "@/components/Panel";
import { counted, number, policyStep, versionName, visible } from "@/format";
import { usePart } from "@/live/live";
import { nameOf } from "@/pages/run/curriculum/steering";
import { ordersQuery } from "@/pages/run/weights/api";
import { appliedOf, asOfFrame, pinEffect, pinText, whyNotOrder } from "@/pages/run/weights/commands";
import { PinDialog, SyncDialog, UnpinDialog } from "@/pages/run/weights/OrderDialogs";
import css from "@/pages/run/weights/weights.module.css";

const LimitsDialog = onDemand(() => import("@/pages/run/queue/LimitsDialog"), "LimitsDialog");
const LAGGING_SHOWN = 6;
const KINDS = { pin: "pin", unpin: "follow newest", sync: "reload" } as const;

type Dialog = "pin" | "unpin" | "sync" | "limits" | null;

/** Requested and applied version: the workers that have it, and those that do not yet. */
function Applied({ run, orders, workers }: { run: string; orders: WeightsCommands; workers: WorkerRow[] }) {
  const { there, done, waiting } = appliedOf(orders, workers);
  if (there === 0) return <p className="small soft">No workers at present; new workers load version {policyStep(orders.acting_step)}.</p>;
  return (
    <div data-applied={`${done}/${there}`}>
      <p className="small" role="status">
        <b className="num">
          {number(done)} of {number(there)}
        </b>{" "}
        {there === 1 ? "worker uses" : "workers use"} version {policyStep(orders.acting_step)}
        {orders.number > 0 && ` under order ${number(orders.number)}`}.
      </p>
      {waiting.length > 0 && (
        <ul className={`${css.lagging} small`} data-lagging>
          {waiting.slice(0, LAGGING_SHOWN).map((worker) => (
            <li key={worker.index}>
              <Link to="/runs/$name/fleet" params={{ name: run }}>
                worker {worker.index}
              </Link>{" "}
              {worker.active_step === orders.acting_step
                ? "has not reloaded yet"
                : `uses ${policyStep(worker.active_step)}, has received ${policyStep(worker.staged_step)}`}
            </li>
          ))}
          {waiting.length > LAGGING_SHOWN && <li>and {number(waiting.length - LAGGING_SHOWN)} more</li>}
        </ul>
      )}
    </div>
  );
}

function History({ orders }: { orders: WeightsCommands }) {
  if (orders.results.length === 0) return null;
  return (
    <details className="small">
      <summary>{counted(orders.results.length, "order")} to date</summary>
      <ol className={css.orderHistory} aria-label="Orders, newest first">
        {orders.results.map((order) => (
          <li key={order.number}>
            <span className="num faint">{order.number}</span> <b>{KINDS[order.kind]}</b>
            {order.kind === "pin" && ` ${versionName(order.epoch, order.pinned_step)}`} by {nameOf(order.actor)},{" "}
            <Age at={order.at} suffix=" ago" />, at version {policyStep(order.newest_step)}
            {order.reason && `: ${visible(order.reason)}`}
          </li>
        ))}
      </ol>
    </details>
  );
}

type Props = { run: RunDetail; versions: PolicyVersionRow[]; workers: WorkerRow[] };

/** The requested weights version, its order, its progress, and the actions to change it. */
export function WeightOrdersPanel({ run, versions, workers }: Props) {
  const { data: read, error } = useQuery(ordersQuery(run.name));
  const frame = usePart(`run:${run.name}`, "weights");
  const orders = read && asOfFrame(read, frame);
  const [open, setOpen] = useState<Dialog>(null);
  const why = whyNotOrder(run, useMayOperate());
  if (run.kind === "outside") return null;
  if (error)
    return (
      <Panel title="Active weights" className="span-12">
        <ErrorState title="Weight orders unavailable" error={error} />
      </Panel>
    );
  if (!orders) return null;
  const isPinned = orders.pinned_step !== null;
  const pin = isPinned ? orders.results.find(({ kind }) => kind === "pin") : undefined;
  const close = () => setOpen(null);
  const buttons: [Dialog, string][] = [
    ["pin", isPinned ? "Pin another version…" : "Pin a version…"],
    ...(isPinned ? ([["unpin", "Follow newest…"]] as [Dialog, string][]) : []),
    ["sync", "Reload…"],
  ];
  return (
    <Panel
      title="Active weights"
      note={run.max_staleness === null ? "no staleness limit" : `staleness limit: ${counted(run.max_staleness, "version")}`}
      className="span-12"
    >
      <p className={css.heldWords} data-pinned={isPinned || undefined}>
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
      {!["completed", "stopped", "failed"].includes(run.status) && <Applied run={run.name} orders={orders} workers={workers} />}
      <Group gap="xs" mt="sm">
        {buttons.map(([dialog, label]) => (
          <Button
            key={label}
            size="compact-sm"
            variant="default"
            disabled={why !== ""}
            aria-describedby={why ? "why-not-order" : undefined}
            onClick={() => setOpen(dialog)}
          >
            {label}
          </Button>
        ))}
        <Button size="compact-sm" variant="default" disabled={why !== ""} onClick={() => setOpen("limits")}>
          Change max_staleness…
        </Button>
        {why && (
          <span id="why-not-order" className="small faint">
            {why}
          </span>
        )}
      </Group>
      <History orders={orders} />
      {open === "pin" && <PinDialog run={run} orders={orders} versions={versions} onClose={close} />}
      {open === "unpin" && <UnpinDialog run={run} orders={orders} onClose={close} />}
      {open === "sync" && <SyncDialog run={run} orders={orders} onClose={close} />}
      {open === "limits" && <LimitsDialog run={run} onClose={close} />}
    </Panel>
  );
}
