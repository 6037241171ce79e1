import { Chip } from "@/components/Chip";
import { Hint } from "@/components/Hint";
import { useNow } from "@/components/now";
import { ageSeconds, duration, utc, visible } from "@/format";
import { useIsOutdated } from "@/live/live";
import { honest, lookOf } from "@/theme/chips";

type Props = {
  state: string;
  /** Server time of the last heartbeat that confirmed the state. */
  provenAt?: string | null;
  /** Without a heartbeat for this long the chip shows `unknown`. */
  allowedSeconds?: number;
  /** Server time at which the state began. */
  since?: string | null;
  reason?: string;
};

const UNREACHED = "The server does not answer.";

/** A state and its duration. The heartbeat is shown only when it is late; without the server, no state claims life. */
export function StateChip({ state, provenAt, allowedSeconds, since, reason }: Props) {
  const now = useNow();
  const isOutdated = useIsOutdated();
  const proof = ageSeconds(provenAt, now);
  const heard = allowedSeconds === undefined ? state : honest(state, proof, allowedSeconds);
  const shown = isOutdated ? honest(state, Infinity, 0) : heard;
  const isUnreached = isOutdated && shown !== state;
  const look = lookOf(shown);
  const { tone, sign } = look;
  const meaning = isUnreached ? UNREACHED : look.meaning;
  // The tooltip's reason, also for screen readers.
  const why = reason || (shown === "unknown" ? meaning : "");
  // The server also reports states as unknown.
  const isLate = shown === "unknown" && proof !== null;
  const lasting = since && !isLate && !isUnreached ? duration(ageSeconds(since, now)) : "";
  const lines = [
    shown === state ? meaning : `Last known state: ${state}. ${meaning}`,
    reason ? `Reason: ${visible(reason)}` : "",
    since && !isLate && !isUnreached ? `Since ${utc(since)}` : "",
    provenAt ? `Last heartbeat ${utc(provenAt)}` : "",
  ].filter(Boolean);
  return (
    <>
      <Hint label={lines.map((line) => <div key={line}>{line}</div>)}>
        <Chip tone={tone} sign={sign} tabIndex={0} data-state={shown}>
          {shown}
          {lasting && <span className="chip-age">· {lasting}</span>}
          {why && <span className="unseen">, {visible(why)}</span>}
        </Chip>
      </Hint>
      {isLate && (
        <span className="chip-late" data-late>
          {" "}
          last heartbeat {duration(proof)} ago
        </span>
      )}
    </>
  );
}
