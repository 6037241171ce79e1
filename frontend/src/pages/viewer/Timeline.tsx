import type { GroupDetail, SequenceSummary } from "@/api/groups";
import { number } from "@/format";
import { Life } from "@/pages/viewer/Life";
import styles from "@/pages/viewer/tokens.module.css";
import { Waterfall } from "@/pages/viewer/Waterfall";

const MOST_TURNS_DRAWN = 400;

type Props = { detail: GroupDetail; sequences: SequenceSummary[]; onOpen: (sequence: number, token: number) => void };

/** The lifecycle of the group, the generation of its sequences, and the author of each token. */
export function Timeline({ detail, sequences, onOpen }: Props) {
  return (
    <>
      <Life detail={detail} sequences={sequences} />
      <Waterfall sequences={sequences} />
      <Turns sequences={sequences} onOpen={onOpen} />
    </>
  );
}

/** The author of each span of tokens, per sequence; surprising tokens are marked. */
function Turns({ sequences, onOpen }: Omit<Props, "detail">) {
  const longest = Math.max(1, ...sequences.map((one) => one.tokens));
  const share = (tokens: number) => `${(100 * tokens) / longest}%`;
  return (
    <section aria-label="Tokens by author">
      <h3>Tokens by author</h3>
      <p className={styles.note}>
        One row per sequence, 0 to {number(longest)} tokens. Filled: written by the policy and trained on. Hatched: prompt, tools and
        environment. Ticks: surprising tokens.
      </p>
      <ol className={styles.timeline}>
        {sequences.map((one) => (
          <li key={one.index}>
            <span>
              <b>{number(one.score)}</b> <span className="faint tiny">sequence {one.index}</span>
            </span>
            <div className={styles.track}>
              {one.turns.slice(0, MOST_TURNS_DRAWN).map(([start, end, isOwn]) => (
                <button
                  key={start}
                  type="button"
                  data-own={isOwn || undefined}
                  style={{ left: share(start), width: share(end - start) }}
                  title={`${isOwn ? "Policy" : "Prompt or environment"}, tokens ${number(start)} to ${number(end - 1)}`}
                  aria-label={`Sequence ${one.index}, ${isOwn ? "policy" : "prompt or environment"}, tokens ${start} to ${end - 1}`}
                  onClick={() => onOpen(one.index, start)}
                />
              ))}
              {one.surprises.map((place) => (
                <i key={place} style={{ left: share(place) }} aria-hidden="true" />
              ))}
            </div>
            <span className="faint tiny nowrap">
              {number(one.own_tokens)} of {number(one.tokens)} trained on · {one.turns.length} turns
              {one.logprob !== null && ` · mean logprob ${number(one.logprob)}`}
            </span>
          </li>
        ))}
      </ol>
    </section>
  );
}
