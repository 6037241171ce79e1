import type { SequenceSummary } from "@/api/groups";
import { number, preciseDuration, visible } from "@/format";
import { LEAST_CLOCK_SECONDS, lanesOf, namesOf, type Span } from "@/pages/viewer/life";
import styles from "@/pages/viewer/life.module.css";

const NAMES_WITH_A_COLOUR = 6;
const SEQUENCES_DRAWN = 64;

type Axis = { beginOf: (spans: Span[]) => number; length: number };

/** A common x axis: clock times share a start, relative times start with their sequence. */
function axisOf(timed: SequenceSummary[]): Axis {
  const clocks = timed.flatMap(({ spans }) => spans).filter(({ start }) => start >= LEAST_CLOCK_SECONDS);
  const first = clocks.reduce((least, { start }) => Math.min(least, start), Infinity);
  const beginOf = (spans: Span[]) => ((spans[0]?.start ?? 0) >= LEAST_CLOCK_SECONDS ? first : 0);
  const length = timed.reduce((most, { spans }) => spans.reduce((longest, { end }) => Math.max(longest, end - beginOf(spans)), most), 0);
  return { beginOf, length: length || 1 };
}

function Track({ sequence, axis, colourOf }: { sequence: SequenceSummary; axis: Axis; colourOf: (name: string) => number }) {
  const placed = lanesOf(sequence.spans);
  const lanes = 1 + placed.reduce((most, { lane }) => Math.max(most, lane), 0);
  const begin = axis.beginOf(sequence.spans);
  const share = (seconds: number) => `${(100 * seconds) / axis.length}%`;
  return (
    <div className={styles.track} style={{ height: `${lanes}rem` }}>
      {placed.map(({ span, lane }, index) => {
        const timed = `${visible(span.name)}: ${preciseDuration(span.end - span.start)}, starting at ${preciseDuration(span.start - begin)}`;
        return (
          <span
            key={index}
            role="img"
            aria-label={timed}
            title={timed}
            data-colour={colourOf(span.name)}
            style={{ left: share(span.start - begin), width: share(span.end - span.start), top: `${lane}rem` }}
          />
        );
      })}
    </div>
  );
}

/** The generation spans of each sequence over time. */
export function Waterfall({ sequences }: { sequences: SequenceSummary[] }) {
  const timed = sequences.filter(({ spans }) => spans.length > 0).slice(0, SEQUENCES_DRAWN);
  if (timed.length === 0) return null;
  const axis = axisOf(timed);
  const names = namesOf(timed);
  const colourOf = (name: string) =>
    Math.min(
      NAMES_WITH_A_COLOUR,
      names.findIndex((each) => each.name === name),
    ) + 1;
  return (
    <section aria-label="Generation">
      <h3>Generation</h3>
      <p className={styles.legend}>
        {names.slice(0, 12).map(({ name, seconds }) => (
          <span key={name}>
            <i data-colour={colourOf(name)} aria-hidden="true" /> {visible(name)} <b>{preciseDuration(seconds)}</b>
          </span>
        ))}
        <span className="faint">across all sequences; 0 to {preciseDuration(axis.length)}</span>
      </p>
      <ol className={styles.tracks}>
        {timed.map((sequence) => (
          <li key={sequence.index}>
            <span>
              <b>{number(sequence.score)}</b> <span className="faint tiny">sequence {sequence.index}</span>
            </span>
            <Track sequence={sequence} axis={axis} colourOf={colourOf} />
          </li>
        ))}
      </ol>
    </section>
  );
}
