import type { AlertDelivery } from "@/api/alerts";
import { Chip } from "@/components/Chip";
import { number, visible } from "@/format";

const LOOKS: Record<AlertDelivery["state"], { tone: string; sign: string }> = {
  waiting: { tone: "busy", sign: "◔" },
  delivered: { tone: "good", sign: "✓" },
  "given up": { tone: "bad", sign: "✕" },
};

/** The outcome of a delivery: its state, the webhook's response and latency, or the error. */
export function DeliveryOutcome({ delivery }: { delivery: AlertDelivery }) {
  const { tone, sign } = LOOKS[delivery.state];
  const { last_status: status, last_took_ms: took } = delivery;
  const facts = [status === null ? "" : `HTTP ${status}`, took === null ? "" : `after ${number(took)} ms`].filter(Boolean);
  // An error status needs no further explanation.
  const why = status === null && delivery.state !== "delivered" ? delivery.last_error : "";
  return (
    <>
      <Chip tone={tone} sign={sign} data-delivery={delivery.state}>
        {delivery.state}
      </Chip>
      {facts.length > 0 && <div className="small soft">{facts.join(" ")}</div>}
      {why && <div className="small soft anywhere">{visible(why)}</div>}
    </>
  );
}
