import { Tooltip } from "@mantine/core";
import { useNow } from "@/components/now";
import { ageSeconds, duration, utc, visible } from "@/format";
import { honest, isOver, lookOf } from "@/theme/chips";

type Props = {
  state: string;
  /** Server time of the last proof that the state is true. */
  provenAt?: string | null;
  /** After this long without a proof the chip says `unknown`. */
  allowedSeconds?: number;
  /** Server time since when the state holds; shown when nothing proves it by the second. */
  since?: string | null;
  reason?: string;
};

/** A state that never lies: the word, the age of its last proof, and on hover what and why. */
export function StateChip({ state, provenAt, allowedSeconds, since, reason }: Props) {
  const now = useNow();
  const proof = ageSeconds(provenAt, now);
  const shown = allowedSeconds === undefined ? state : honest(state, proof, allowedSeconds);
  const { tone, sign, meaning } = lookOf(shown);
  // What hover tells those who can, everybody can read: why nothing is claimed.
  const why = reason || (shown === "unknown" ? meaning : "");
  const held = duration(ageSeconds(since, now));
  const lasting = isOver(state) ? `${held} ago` : `for ${held}`;
  const age = provenAt ? `${duration(proof)} ago` : since ? lasting : "";
  const lines = [
    shown === state ? meaning : `Last known as ${state}. ${meaning}`,
    reason ? `Reason: ${visible(reason)}` : "",
    provenAt ? `Last proof ${utc(provenAt)}` : since ? `Since ${utc(since)}` : "",
  ].filter(Boolean);
  return (
    <Tooltip label={lines.map((line) => <div key={line}>{line}</div>)} events={{ hover: true, focus: true, touch: true }}>
      <span className={`chip tone-${tone}`} tabIndex={0} data-state={shown}>
        <span className="chip-sign" aria-hidden="true">
          {sign}
        </span>
        {shown}
        {age && <span className="chip-age">· {age}</span>}
        {why && <span className="unseen">, {visible(why)}</span>}
      </span>
    </Tooltip>
  );
}
