import { Group } from "@mantine/core";
import type { LedgerCounts, LedgerPart, RunDetail } from "@/api/types";
import { Hint } from "@/components/inline";
import { Line, Swatch, striped } from "@/components/Lanes";
import { Panel } from "@/components/panels";
import { counted, number, visible } from "@/format";
import { unitOf } from "@/runs/queued";

type ItemState = {
  name: "served" | "leased" | "expired" | "queued" | "waiting" | "quarantined" | "dropped";
  count: number;
  meaning: string;
};

/** The fill of each state; striped where the items wait. */
const ITEM_FILLS: Record<ItemState["name"], string> = {
  served: "var(--chart-3)",
  leased: "var(--chart-4)",
  expired: striped("var(--chart-4)"),
  queued: "var(--chart-1)",
  waiting: striped("var(--chart-1)"),
  quarantined: striped("var(--bad)"),
  dropped: "var(--bad)",
};

/** The states of accepted items; each item has exactly one, and rare ones are listed only with items. */
export function itemStatesOf(counts: LedgerCounts, expired = 0): ItemState[] {
  const dropped = Object.values(counts.dropped).reduce((sum, n) => sum + n, 0);
  const states: ItemState[] = [
    { name: "served", count: counts.served, meaning: "In acknowledged batches." },
    { name: "leased", count: counts.leased - expired, meaning: "In a batch that a trainer holds." },
    { name: "expired", count: expired, meaning: "In a batch whose lease has expired: it is leased again first." },
    { name: "queued", count: counts.queued, meaning: "Ready to be part of a batch." },
    { name: "waiting", count: counts.waiting, meaning: "Waiting until enough groups of this size arrive." },
    { name: "quarantined", count: counts.quarantined, meaning: "In a batch whose lease expired repeatedly: release or discard it." },
    { name: "dropped", count: dropped, meaning: "Not served; each drop has a counted reason." },
  ];
  return states.filter(({ name, count }) => count > 0 || (name !== "expired" && name !== "quarantined"));
}

/** Number of accepted items without a state; any value but zero is a bug in the ledger. */
export function missing(counts: LedgerCounts): number {
  return counts.accepted - itemStatesOf(counts).reduce((sum, state) => sum + state.count, 0);
}

/** Rollouts of short groups, which were never accepted as sequences, or were sampled again. */
export function lossesOf({ failed, refilled, lost_siblings }: LedgerPart): [string, number][] {
  const kinds = Object.entries(failed).map(([kind, count]): [string, number] => [`failed: ${visible(kind).replaceAll("_", " ")}`, count]);
  const losses: [string, number][] = [...kinds, ["refilled", refilled], ["lost with their group", lost_siblings]];
  return losses.filter(([, count]) => count > 0);
}

function Terms({ states, dropped }: { states: ItemState[]; dropped: Record<string, number> }) {
  const reasons = Object.entries(dropped).filter(([, n]) => n > 0);
  return states.map(({ name, count, meaning }, i) => (
    <Group key={name} component="span" gap="0.4rem">
      {i > 0 && <span className="faint">+</span>}
      <Swatch fill={ITEM_FILLS[name]} />
      <Hint label={meaning}>
        <span tabIndex={0}>
          <span className="soft">{name}</span>{" "}
          <b data-ledger={name} data-quantity={name === "queued" ? "queue" : undefined}>
            {number(count)}
          </b>
        </span>
      </Hint>
      {name === "dropped" && reasons.length > 0 && (
        <span className="faint tiny">
          ({reasons.map(([reason, n]) => `${visible(reason).replaceAll("_", " ")} ${number(n)}`).join(", ")})
        </span>
      )}
    </Group>
  ));
}

/** The ledger: accepted = served + leased + queued + waiting + quarantined + dropped, with a balance check. */
export function Ledger({ run, ledger }: { run: RunDetail; ledger: LedgerPart | undefined }) {
  const unit = unitOf(run.kind);
  const counts = ledger?.[unit];
  if (!counts) return null;
  const states = itemStatesOf(counts, ledger.expired);
  const check = counts.balanced ? "✓ balanced" : `✕ off by ${number(missing(counts))}`;
  return (
    <Panel
      title={`Ledger, in ${unit}`}
      note={`outcome of every accepted ${unit.slice(0, -1)}`}
      aside={<span className={`small ${counts.balanced ? "soft" : "bad"}`}>{check}</span>}
    >
      <Line segments={states.map(({ name, count }) => ({ key: name, width: count / (counts.accepted || 1), fill: ITEM_FILLS[name] }))} />
      <Group gap="0.25rem 1.4rem" mt="sm">
        <span>
          <span className="soft">accepted</span> <b data-ledger="accepted">{number(counts.accepted)}</b> <span className="faint">=</span>
        </span>
        <Terms states={states} dropped={counts.dropped} />
        {ledger.truncated > 0 && (
          <span className="soft" data-ledger="truncated">
            {counted(ledger.truncated, "group")} truncated to the maximum length
          </span>
        )}
        {lossesOf(ledger).map(([name, count]) => (
          <span key={name} className="soft" data-ledger={name}>
            {counted(count, "rollout")} {name}
          </span>
        ))}
        {ledger.refused > 0 && (
          <span className="bad" data-ledger="refused">
            {/* Workers are counted in fragments. */}
            {counted(ledger.refused, unit === "fragments" ? "fragment" : "push")} refused
          </span>
        )}
      </Group>
    </Panel>
  );
}
