import { useId, useState } from "react";
import type { ScoreBins } from "@/api/groups";
import { number } from "@/format";
import styles from "@/pages/run/trajectories/trajectories.module.css";

type Props = {
  label: string;
  bins: ScoreBins | undefined;
  least: number | undefined;
  most: number | undefined;
  onChange: (least: number | undefined, most: number | undefined) => void;
};

/** One end of a range; it counts when one leaves the field or presses Enter. */
function End({ label, value, hint, onChange }: { label: string; value: number | undefined; hint: string; onChange: (value: number | undefined) => void }) {
  const id = useId();
  const [text, setText] = useState<string | null>(null);
  const shown = text ?? (value === undefined ? "" : String(value));
  const commit = () => {
    if (text === null) return;
    const typed = text.trim() === "" ? undefined : Number(text);
    setText(null);
    if (typed === undefined || Number.isFinite(typed)) onChange(typed);
  };
  return (
    <span className={styles.end}>
      <label htmlFor={id} className="unseen">{label}</label>
      <input
        id={id}
        inputMode="decimal"
        placeholder={hint}
        value={shown}
        onChange={(event) => setText(event.currentTarget.value)}
        onBlur={commit}
        onKeyDown={(event) => event.key === "Enter" && commit()}
      />
    </span>
  );
}

/** How a number is spread, and which part of it is listed: click a bar, or type both ends. */
export function Histogram({ label, bins, least, most, onChange }: Props) {
  const highest = Math.max(1, ...(bins?.counts ?? []));
  const width = bins ? (bins.most - bins.least) / bins.counts.length : 0;
  return (
    <fieldset className={styles.facet}>
      <legend>{label}</legend>
      {bins && width > 0 && (
        <div className={styles.bars}>
          {bins.counts.map((groups, index) => {
            const from = bins.least + index * width;
            const to = index === bins.counts.length - 1 ? bins.most : from + width;
            const isOut = (least !== undefined && to < least) || (most !== undefined && from > most);
            return (
              <button
                key={index}
                type="button"
                disabled={groups === 0}
                data-out={isOut || undefined}
                title={`${number(from)} to ${number(to)}: ${number(groups)} groups`}
                aria-label={`${label} ${number(from)} to ${number(to)}, ${groups} groups`}
                onClick={() => onChange(rounded(from), rounded(to))}
              >
                <span style={{ height: `${groups === 0 ? 0 : Math.max(6, (100 * groups) / highest)}%` }} />
              </button>
            );
          })}
        </div>
      )}
      <div className={styles.ends}>
        <End label={`${label} from`} value={least} hint={bins ? number(bins.least) : "from"} onChange={(value) => onChange(value, most)} />
        <span className="faint" aria-hidden="true">to</span>
        <End label={`${label} to`} value={most} hint={bins ? number(bins.most) : "to"} onChange={(value) => onChange(least, value)} />
      </div>
    </fieldset>
  );
}

function rounded(value: number): number {
  return Number(value.toPrecision(6));
}
