import { Tooltip } from "@mantine/core";
import { useNow } from "@/components/now";
import { ageSeconds, duration, utc, visible } from "@/format";
import { honest, lookOf } from "@/theme/chips";

type Props = {
  state: string;
  /** Server time of the last proof that the state is true. */
  provenAt?: string | null;
  /** After this long without a proof the chip says `unknown`. */
  allowedSeconds?: number;
  /** Server time at which the state began. */
  since?: string | null;
  reason?: string;
};

/** A state and how long it has lasted. A heartbeat is shown apart, and only when it is late. */
export function StateChip({ state, provenAt, allowedSeconds, since, reason }: Props) {
  const now = useNow();
  const proof = ageSeconds(provenAt, now);
  const shown = allowedSeconds === undefined ? state : honest(state, proof, allowedSeconds);
  const { tone, sign, meaning } = lookOf(shown);
  // The tooltip's reason is also there for screen readers.
  const why = reason || (shown === "unknown" ? meaning : "");
  // The server, too, reports a state as unknown.
  const isLate = shown === "unknown" && proof !== null;
  const lasting = since && !isLate ? duration(ageSeconds(since, now)) : "";
  const lines = [
    shown === state ? meaning : `Last known as ${state}. ${meaning}`,
    reason ? `Reason: ${visible(reason)}` : "",
    since && !isLate ? `Since ${utc(since)}` : "",
    provenAt ? `Last heartbeat ${utc(provenAt)}` : "",
  ].filter(Boolean);
  return (
    <>
      <Tooltip label={lines.map((line) => <div key={line}>{line}</div>)} events={{ hover: true, focus: true, touch: true }}>
        <span className={`chip tone-${tone}`} tabIndex={0} data-state={shown}>
          <span className="chip-sign" aria-hidden="true">
            {sign}
          </span>
          {shown}
          {lasting && <span className="chip-age">· {lasting}</span>}
          {why && <span className="unseen">, {visible(why)}</span>}
        </span>
      </Tooltip>
      {isLate && (
        <span className="chip-late" data-late>
          {" "}
          last heartbeat {duration(proof)} ago
        </span>
      )}
    </>
  );
}
