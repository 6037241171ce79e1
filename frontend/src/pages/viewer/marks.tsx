import { Chip } from "@/components/Chip";
import styles from "@/pages/viewer/marks.module.css";

type GroupState = { state: string; reason: string; step: number | null };

const LOOKS: Record<string, [string, string]> = {
  waiting: ["quiet", "◔"],
  queued: ["busy", "▸"],
  leased: ["held", "◑"],
  served: ["good", "✓"],
  quarantined: ["bad", "!"],
  dropped: ["bad", "×"],
};

/** The state of a group, with its drop reason or the train step that used it. */
export function GroupStateChip({ state, reason, step }: GroupState) {
  const [tone, sign] = LOOKS[state] ?? ["quiet", "·"];
  const more = reason ? reason.replaceAll("_", " ") : step === null ? "" : `step ${step}`;
  return (
    <Chip tone={tone} sign={sign}>
      {state}
      {more && <span className="chip-age">· {more}</span>}
    </Chip>
  );
}

/** Flags of a group as labels. */
export function Flags({ flags }: { flags: string[] }) {
  return flags.map((flag) => (
    <span key={flag} className={styles.flag}>
      {flag.replaceAll("_", " ")}
    </span>
  ));
}
