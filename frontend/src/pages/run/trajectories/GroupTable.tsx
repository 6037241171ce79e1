import { Checkbox } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { GroupQuery, GroupSummary } from "@/api/groups";
import type { MarkVocabulary } from "@/api/marks";
import { Age } from "@/components/Age";
import { bytes, count, counted, number, policyStep, visible } from "@/format";
import { MarkCell } from "@/marks/MarkCell";
import { ScoreDots } from "@/pages/run/trajectories/ScoreDots";
import styles from "@/pages/run/trajectories/trajectories.module.css";
import { GroupStateChip } from "@/pages/viewer/marks";

const NONE: ReadonlySet<number> = new Set();
/** Flags in lists; their tooltip has the words of the facet. */
const SHORT_FLAGS: Record<string, string> = { truncated: "cut", zero_variance: "0 var", duplicate: "dup", quarantined: "quar" };

type Props = {
  run: string;
  groups: GroupSummary[];
  query: GroupQuery;
  words?: MarkVocabulary;
  chosen?: ReadonlySet<number>;
  /** Absent if groups cannot be selected: in short lists, or without permission to mark. */
  onChoose?: (ids: number[], isOn: boolean) => void;
  /** All groups have the same prompt: rows begin with their answers, and are selected one by one. */
  isOnePrompt?: boolean;
};
type LineProps = Omit<Props, "groups"> & { group: GroupSummary; least: number; most: number };

function GroupLine({ run, group, query, words, chosen = NONE, onChoose, isOnePrompt, least, most }: LineProps) {
  const title = visible((isOnePrompt && group.answer) || group.excerpt);
  const from = group.lesson || group.environment || (group.env_id === null ? "" : `environment ${group.env_id}`);
  return (
    <tr className="opens" data-row data-group={group.id} data-selected={chosen.has(group.id) || undefined}>
      {onChoose && (
        <td className={styles.pick}>
          <Checkbox
            size="xs"
            aria-label={`Select group ${group.id}`}
            checked={chosen.has(group.id)}
            onChange={(event) => onChoose([group.id], event.currentTarget.checked)}
          />
        </td>
      )}
      <td className={styles.what}>
        <div className={styles.texts}>
          <Link
            to="/runs/$name/groups/$group"
            params={{ name: run, group: String(group.id) }}
            search={query}
            className="strong"
            title={title}
            data-open
          >
            {title || `Group ${group.id}`}
          </Link>
          {group.answer && !isOnePrompt && (
            <span className={`${styles.answer} wide-only`} title={visible(group.answer)}>
              {visible(group.answer)}
            </span>
          )}
        </div>
      </td>
      <td className={styles.marks}>
        <MarkCell run={run} group={group} words={words} />
        <span className="tiny held" title={group.flags.map((flag) => flag.replaceAll("_", " ")).join(", ")}>
          {group.flags.map((flag) => SHORT_FLAGS[flag] ?? flag).join(" ")}
        </span>
      </td>
      <td className={`${styles.from} ${styles.roomy}`} title={visible(from)}>
        {visible(from)}
      </td>
      <td className={styles.scoreCell} title={counted(group.sequences, "sequence")}>
        {group.scores.length > 0 ? (
          <ScoreDots scores={group.scores} least={least} most={most} mean={group.score_mean} />
        ) : (
          <span className="faint tiny">{group.has_bytes ? "large: indexed soon" : "no content"}</span>
        )}
      </td>
      <td className="num">{number(group.score_mean)}</td>
      <td className={`num ${styles.roomy}`} title={`${number(group.tokens)} tokens over all, ${bytes(group.size_bytes)}`}>
        {count(group.longest_tokens)}
      </td>
      <td className="num wide-only">{group.policy_step === null ? "–" : policyStep(group.policy_step)}</td>
      <td className="wide-only">
        <GroupStateChip state={group.state} reason={group.drop_reason} step={group.step} />
      </td>
      <td className="num soft wide-only">
        <Age at={group.received_at} />
      </td>
    </tr>
  );
}

/** Groups, one per row; all scores share one scale. */
export function GroupTable({ groups, ...shared }: Props) {
  const { chosen = NONE, onChoose, isOnePrompt } = shared;
  const scores = groups.flatMap((group) => [group.score_min, group.score_max]).filter((score) => score !== null);
  const least = Math.min(...scores);
  const most = Math.max(...scores);
  return (
    <div className="table-scroll">
      <table className={`table ${styles.groups}`}>
        <caption className="unseen">Trajectory groups</caption>
        <thead>
          <tr>
            {onChoose && isOnePrompt && (
              <th scope="col" className={styles.pick}>
                <span className="unseen">Selected</span>
              </th>
            )}
            {onChoose && !isOnePrompt && (
              <th scope="col" className={styles.pick}>
                <Checkbox
                  size="xs"
                  aria-label="Select all shown groups"
                  checked={groups.every(({ id }) => chosen.has(id))}
                  indeterminate={chosen.size > 0 && !groups.every(({ id }) => chosen.has(id))}
                  onChange={(event) =>
                    onChoose(
                      groups.map(({ id }) => id),
                      event.currentTarget.checked,
                    )
                  }
                />
              </th>
            )}
            <th scope="col">
              <div className={styles.texts}>
                {!isOnePrompt && <span>Group: prompt</span>}
                <span
                  className={isOnePrompt ? undefined : "wide-only"}
                  title="Beginning of the last answer of the first sequence, without reasoning"
                >
                  Answer
                </span>
              </div>
            </th>
            <th scope="col">
              <span className="unseen">Mark and flags</span>
            </th>
            <th scope="col" className={styles.roomy}>
              From
            </th>
            <th scope="col" title="One dot per sequence; the line marks the mean">
              Scores{scores.length > 0 && most > least ? ` ${number(least)} … ${number(most)}` : ""}
            </th>
            <th scope="col" className="num">
              Mean
            </th>
            <th scope="col" className={`num ${styles.roomy}`} title="Tokens of the longest sequence">
              Longest
            </th>
            <th scope="col" className="num wide-only">
              Policy
            </th>
            <th scope="col" className="wide-only">
              State
            </th>
            <th scope="col" className="num wide-only">
              Age
            </th>
          </tr>
        </thead>
        <tbody>
          {groups.map((group) => (
            <GroupLine key={group.id} {...shared} group={group} least={least} most={most} />
          ))}
        </tbody>
      </table>
    </div>
  );
}
