import type { LedgerPart, RunDetail } from "@/api/types";
import { Hint } from "@/components/Hint";
import { Line } from "@/components/Lanes";
import { Panel } from "@/components/Panel";
import { number, visible } from "@/format";
import { ITEM_FILLS, type ItemState, itemStatesOf, missing, refusedText, truncatedText } from "@/pages/run/queue/itemStates";
import runCss from "@/pages/run/run.module.css";
import { unitOf } from "@/runs/queued";

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
      className="span-12"
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
