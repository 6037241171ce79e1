import { type PointerEvent, useId, useState } from "react";
import { number } from "@/format";
import { barAt, rounded, spreadOf } from "@/pages/run/episodes/brush";
import styles from "@/pages/run/episodes/histogram.module.css";
import type { ScoreBins } from "@/pages/run/episodes/ranges";

type Props = {
  label: string;
  bins: ScoreBins | undefined;
  least: number | undefined;
  most: number | undefined;
  onChange: (least: number | undefined, most: number | undefined) => void;
};

/** One end of a range; applied on blur or Enter. */
function End({
  label,
  value,
  hint,
  onChange,
}: {
  label: string;
  value: number | undefined;
  hint: string;
  onChange: (value: number | undefined) => void;
}) {
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
      <label htmlFor={id} className="unseen">
        {label}
      </label>
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

type BarsProps = Props & { bins: ScoreBins };

/** Bars with a drag selection: press on one bar, release on another; Shift extends it. Touch and keyboard use the fields below. */
function Bars({ label, bins, least, most, onChange }: BarsProps) {
  const [brushed, setBrushed] = useState<[number, number] | null>(null);
  const [anchor, setAnchor] = useState(0);
  const spread = spreadOf(bins);
  const highest = Math.max(1, ...bins.counts);
  const isOut = (index: number) => {
    if (brushed) return index < Math.min(...brushed) || index > Math.max(...brushed);
    const [from, to] = spread(index, index);
    return (least !== undefined && to <= least) || (most !== undefined && from >= most);
  };
  const choose = (one: number, other: number) => {
    const [from, to] = spread(Math.min(one, other), Math.max(one, other));
    onChange(rounded(from), rounded(to));
  };
  const under = (event: PointerEvent<HTMLElement>) => barAt(event.currentTarget.getBoundingClientRect(), event.clientX, bins.counts.length);
  const bars = bins.counts.map((groups, index) => `${number(spread(index, index)[0])}: ${number(groups)}`).join(", ");
  return (
    <div
      className={styles.bars}
      role="img"
      aria-label={`${label}, groups per bar: ${bars}`}
      data-brushing={brushed !== null || undefined}
      onPointerDown={(event) => {
        if (event.button !== 0) return;
        event.currentTarget.setPointerCapture(event.pointerId);
        setBrushed([event.shiftKey ? anchor : under(event), under(event)]);
      }}
      onPointerMove={(event) => brushed && setBrushed([brushed[0], under(event)])}
      onPointerUp={() => {
        if (!brushed) return;
        setBrushed(null);
        setAnchor(brushed[0]);
        choose(...brushed);
      }}
      onPointerCancel={() => setBrushed(null)}
    >
      {bins.counts.map((groups, index) => {
        const [from, to] = spread(index, index);
        return (
          <span
            key={index}
            className={styles.bin}
            data-out={isOut(index) || undefined}
            title={`${number(from)} to ${number(to)}: ${number(groups)} groups`}
          >
            <span style={{ height: `${groups === 0 ? 0 : Math.max(6, (100 * groups) / highest)}%` }} />
          </span>
        );
      })}
    </div>
  );
}

/** The distribution of a value, with a range filter by dragging or typing. */
export function Histogram(props: Props) {
  const { label, bins, least, most, onChange } = props;
  return (
    <fieldset className={styles.facet}>
      <legend>{label}</legend>
      {bins && bins.most > bins.least && <Bars {...props} bins={bins} />}
      <div className={styles.ends}>
        <End label={`${label} from`} value={least} hint={bins ? number(bins.least) : "from"} onChange={(value) => onChange(value, most)} />
        <span className="faint" aria-hidden="true">
          to
        </span>
        <End label={`${label} to`} value={most} hint={bins ? number(bins.most) : "to"} onChange={(value) => onChange(least, value)} />
      </div>
    </fieldset>
  );
}
