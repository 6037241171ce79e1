import { shareOf } from "@/charts/scale";
import { number } from "@/format";
import styles from "@/samples/samples.module.css";

const WIDTH = 120;
const HEIGHT = 18;
const INSET = 5;

type Props = { scores: (number | null)[]; least: number; most: number; mean: number | null };

/** One dot per sequence score, on one scale for all groups of a list; the mean as a line. */
export function ScoreDots({ scores, least, most, mean }: Props) {
  const known = scores.filter((score): score is number => score !== null);
  const x = (score: number) => INSET + shareOf(score, least, most) * (WIDTH - 2 * INSET);
  const seen = new Map<number, number>();
  const label = `Scores ${known
    .slice(0, 16)
    .map((score) => number(score))
    .join(", ")}${known.length > 16 ? " …" : ""}`;
  return (
    <svg className={styles.dots} viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={label}>
      <title>{label}</title>
      <line x1={INSET} x2={WIDTH - INSET} y1={HEIGHT / 2} y2={HEIGHT / 2} className={styles.axis} />
      {known.map((score, index) => {
        // Equal scores are stacked as far as space permits.
        const place = Math.round(x(score));
        const rank = seen.get(place) ?? 0;
        seen.set(place, rank + 1);
        const lift = Math.min(rank, 3) * 3 * (rank % 2 === 0 ? 1 : -1);
        return <circle key={index} cx={place} cy={HEIGHT / 2 + lift} r={3.2} className={styles.dot} />;
      })}
      {mean !== null && <line x1={x(mean)} x2={x(mean)} y1={2} y2={HEIGHT - 2} className={styles.mean} />}
    </svg>
  );
}
