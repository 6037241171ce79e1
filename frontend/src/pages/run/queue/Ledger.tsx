import type { LedgerCounts, LedgerPart, RunDetail } from "@/api/types";
import { Hint } from "@/components/inline";
import { Line, striped } from "@/components/Lanes";
import { Panel } from "@/components/panels";
import { counted, number, visible } from "@/format";
import runCss from "@/pages/run/run.module.css";
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

/** The states of accepted items; each item has exactly one. `expired` is the part of `leased` that no trainer holds. */
export function itemStatesOf(counts: LedgerCounts, expired = 0): ItemState[] {
  const dropped = Object.values(counts.dropped).reduce((sum, n) => sum + n, 0);
  return [
    { name: "served", count: counts.served, meaning: "In acknowledged batches." },
    { name: "leased", count: counts.leased - expired, meaning: "In a batch that a trainer holds." },
    ...unlessEmpty("expired", expired, "In a batch whose lease has expired: it is leased again first."),
    { name: "queued", count: counts.queued, meaning: "Ready to be part of a batch." },
    { name: "waiting", count: counts.waiting, meaning: "Waiting until enough groups of this size arrive." },
    ...unlessEmpty("quarantined", counts.quarantined, "In a batch whose lease expired repeatedly: release or discard it."),
    { name: "dropped", count: dropped, meaning: "Not served; each drop has a counted reason." },
  ];
}

/** Rare states are shown only with items. */
function unlessEmpty(name: ItemState["name"], count: number, meaning: string): ItemState[] {
  return count > 0 ? [{ name, count, meaning }] : [];
}

/** Number of accepted items without a state; any value but zero is a bug in the ledger. */
export function missing(counts: LedgerCounts): number {
  return counts.accepted - itemStatesOf(counts).reduce((sum, state) => sum + state.count, 0);
}

/** The number of accepted groups whose sequences were cut at the run's maximum; empty if none. */
export function truncatedText(groups: number): string {
  return groups > 0 ? `${counted(groups, "group")} truncated to the maximum length` : "";
}

/** The number of refused pushes, which are no accepted items; empty if none. Workers are counted in fragments. */
export function refusedText(refused: number, unit: string): string {
  if (!(refused > 0)) return "";
  return `${unit === "fragments" ? counted(refused, "fragment") : counted(refused, "push", "pushes")} refused`;
}

function Terms({ states, dropped }: { states: ItemState[]; dropped: Record<string, number> }) {
  const reasons = Object.entries(dropped).filter(([, n]) => n > 0);
  return states.map(({ name, count, meaning }, i) => (
    <span key={name} className={runCss.ledgerTerm}>
      {i > 0 && <span className="faint">+</span>}
      <span className={runCss.swatch} style={{ background: ITEM_FILLS[name] }} aria-hidden="true" />
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
    </span>
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
      <div className={runCss.ledgerTerms}>
        <span className={runCss.ledgerTerm}>
          <span className="soft">accepted</span> <b data-ledger="accepted">{number(counts.accepted)}</b>
          <span className="faint">=</span>
        </span>
        <Terms states={states} dropped={counts.dropped} />
        {truncatedText(ledger.truncated) && (
          <span className={`${runCss.ledgerTerm} soft`} data-ledger="truncated">
            {truncatedText(ledger.truncated)}
          </span>
        )}
        {refusedText(ledger.refused, unit) && (
          <span className={`${runCss.ledgerTerm} bad`} data-ledger="refused">
            {refusedText(ledger.refused, unit)}
          </span>
        )}
      </div>
    </Panel>
  );
}
