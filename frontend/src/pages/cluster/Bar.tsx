import { percent } from "@/format";
import { share } from "@/pages/cluster/parts";
import css from "./cluster.module.css";

type Props = { label: string; used: number | null | undefined; total: number | null | undefined; text: string; warnAt?: number };

/** A usage bar, with the usage as text. */
export function Bar({ label, used, total, text, warnAt = 0.9 }: Props) {
  const part = share(used, total);
  if (part === null) return <span>{text}</span>;
  return (
    <div className={css.bar}>
      <div
        className={css.track}
        role="meter"
        aria-label={label}
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuenow={Math.round(100 * part)}
        aria-valuetext={`${percent(part)}, ${text}`}
      >
        <div className={css.fill} data-full={part >= warnAt || undefined} style={{ width: `${100 * part}%` }} />
      </div>
      <span className="small soft">{text}</span>
    </div>
  );
}
