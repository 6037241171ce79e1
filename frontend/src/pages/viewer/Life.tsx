import { Tooltip } from "@mantine/core";
import type { GroupDetail, SequenceSummary } from "@/api/groups";
import { useNow } from "@/components/now";
import { clock, preciseDuration, utc, visible } from "@/format";
import { eventsOf, phasesOf } from "@/pages/viewer/life";
import styles from "@/pages/viewer/life.module.css";

const KINDS = ["made", "in transit", "queued", "leased", "idle"];

/** The lifecycle of a group, from generation to acknowledgement, with durations. */
export function Life({ detail, sequences }: { detail: GroupDetail; sequences: SequenceSummary[] }) {
  const now = useNow();
  const events = eventsOf(detail, sequences);
  const phases = phasesOf(detail, sequences, now);
  const isTold = sequences.some(({ spans }) => spans.length > 0);
  return (
    <section aria-label="Lifecycle" className={styles.life}>
      <h3>Lifecycle</h3>
      {phases.length > 0 && (
        <div
          className={styles.bar}
          role="img"
          aria-label={phases.map(({ name, from, to }) => `${name} ${preciseDuration((to - from) / 1000)}`).join(", ")}
        >
          {phases.map(({ name, from, to, isOpen }) => (
            <Tooltip key={name} label={`${name}: ${preciseDuration((to - from) / 1000)}${isOpen ? " so far" : ""}`}>
              <span data-kind={KINDS.indexOf(name)} data-open={isOpen || undefined} style={{ flexGrow: to - from }} />
            </Tooltip>
          ))}
        </div>
      )}
      <p className={styles.legend}>
        {phases.map(({ name, from, to, isOpen }) => (
          <span key={name}>
            <i data-kind={KINDS.indexOf(name)} aria-hidden="true" /> {name} <b>{preciseDuration((to - from) / 1000)}</b>
            {isOpen && " so far"}
          </span>
        ))}
      </p>
      <ol className={styles.events}>
        {events.map(({ what, at, note, tone }, index) => {
          const before = events[index - 1];
          return (
            <li key={what} data-tone={tone}>
              <Tooltip label={utc(at)}>
                <time dateTime={at} tabIndex={0}>
                  {clock(at)}
                </time>
              </Tooltip>
              <span className="faint tiny num">{before ? `+${preciseDuration((Date.parse(at) - Date.parse(before.at)) / 1000)}` : ""}</span>
              <span>
                <b>{visible(what)}</b> {note && <span className="soft">{visible(note)}</span>}
              </span>
            </li>
          );
        })}
      </ol>
      {!isTold && (
        <p className="small faint">
          Generation times are unknown: the environment sends no <span className="mono">spans</span>.
        </p>
      )}
    </section>
  );
}
