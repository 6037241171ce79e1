import type { AlertDelivery } from "@/api/alerts";
import { number, visible } from "@/format";

const LOOKS: Record<AlertDelivery["state"], { tone: string; sign: string }> = {
  waiting: { tone: "busy", sign: "◔" },
  delivered: { tone: "good", sign: "✓" },
  "given up": { tone: "bad", sign: "✕" },
};

/** What became of a delivery: its state, what the webhook answered and how soon, or why nobody heard. */
export function DeliveryOutcome({ delivery }: { delivery: AlertDelivery }) {
  const { tone, sign } = LOOKS[delivery.state];
  const { last_status: status, last_took_ms: took } = delivery;
  const facts = [status === null ? "" : `answered ${status}`, took === null ? "" : `after ${number(took)} ms`].filter(Boolean);
  // An answer that is no success is its own explanation.
  const why = status === null && delivery.state !== "delivered" ? delivery.last_error : "";
  return (
    <>
      <span className={`chip tone-${tone}`} data-delivery={delivery.state}>
        <span className="chip-sign" aria-hidden="true">
          {sign}
        </span>
        {delivery.state}
      </span>
      {facts.length > 0 && <div className="small soft">{facts.join(" ")}</div>}
      {why && <div className="small soft anywhere">{visible(why)}</div>}
    </>
  );
}
