import { X } from "lucide-react";
import type { GroupQuery } from "@/api/groups";
import type { Chip } from "@/pages/run/trajectories/search";
import styles from "@/pages/run/trajectories/trajectories.module.css";

type Props = { chosen: Chip[]; onChange: (query: GroupQuery) => void; onClear: () => void };

/** The active filters; each can be removed. */
export function ChosenChips({ chosen, onChange, onClear }: Props) {
  if (chosen.length === 0) return null;
  return (
    <div className={styles.chips}>
      {chosen.map((chip) => (
        <button
          key={chip.key}
          type="button"
          className={styles.chosen}
          onClick={() => onChange(chip.without)}
          aria-label={`Remove ${chip.label}`}
        >
          {chip.label}
          <X size={13} aria-hidden="true" />
        </button>
      ))}
      <button type="button" className={styles.clear} onClick={onClear}>
        Clear all
      </button>
    </div>
  );
}
