import { Checkbox, Group, NativeSelect, SimpleGrid, Space } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { groupQuery, messagesQuery, sequencesQuery, windowQuery } from "@/api/groups";
import { Skeletons } from "@/components/panels";
import { counted, number, versionName, visible } from "@/format";
import type { Side } from "@/pages/viewer/sides";
import { folded, type Passage, textDiff, transcript } from "@/pages/viewer/textDiff";
import styles from "@/pages/viewer/textDiff.module.css";
import viewerCss from "@/pages/viewer/viewer.module.css";

/** Characters of each part of a message that are compared. */
const MOST_CHARACTERS = 100_000;
const DECODED_TOKENS = 8192;

type Answer = { text?: string; isCut?: boolean; problem?: string };

/** The answer of a sequence, from its messages, its decoded tokens or their ids. */
function useAnswer(run: string, { group, sequence }: Side) {
  const sequences = useQuery(sequencesQuery(run, group));
  const list = sequences.data;
  const own = list?.results[sequence];
  const messages = useQuery({
    ...messagesQuery(run, group, sequence, MOST_CHARACTERS),
    enabled: own !== undefined && list?.has_messages === true,
  });
  const tokens = useQuery({
    ...windowQuery(run, group, sequence, 0, DECODED_TOKENS),
    enabled: own !== undefined && list?.has_messages === false,
  });
  const answer = useMemo((): Answer => {
    const error = sequences.error ?? messages.error ?? tokens.error;
    if (error) return { problem: error.message };
    if (list && !own) return { problem: `The group has no sequence ${sequence}.` };
    if (messages.data) {
      const { results, total } = messages.data;
      const isCut = total > results.length || results.some(({ parts }) => parts.some((part) => part.text.length < part.characters));
      return { text: transcript(results), isCut };
    }
    if (tokens.data) {
      const { text, tokens: ids, is_own, total } = tokens.data;
      const first = Math.max(0, is_own.indexOf(true));
      return { text: text ? visible(text.slice(first).join("")) : ids.slice(first).join(" "), isCut: total > DECODED_TOKENS };
    }
    return {};
  }, [list, own, sequence, sequences.error, messages.data, messages.error, tokens.data, tokens.error]);
  return { ...answer, list: list?.results ?? [] };
}

const MARKS = { equal: "span", removed: "del", added: "ins" } as const;

type ColumnProps = {
  name: "Left" | "Right";
  run: string;
  side: Side;
  answer: ReturnType<typeof useAnswer>;
  passages: Passage[] | undefined;
  onChange: (side: Side) => void;
};

function Column({ name, run, side, answer, passages, onChange }: ColumnProps) {
  const { data } = useQuery(groupQuery(run, side.group));
  return (
    <section aria-label={`${name}: group ${side.group}, sequence ${side.sequence}`}>
      <Group gap="0.3rem 0.7rem" mb={6}>
        <Link to="/runs/$name/groups/$group" params={{ name: run, group: String(side.group) }} search={{ seq: side.sequence }}>
          Group {side.group}
        </Link>
        {data && data.group.policy_step !== null && (
          <span className="faint tiny">policy {versionName(data.group.epoch, data.group.policy_step)}</span>
        )}
        <NativeSelect
          size="xs"
          aria-label={`${name} sequence`}
          value={String(side.sequence)}
          onChange={(event) => onChange({ ...side, sequence: Number(event.currentTarget.value) })}
          data={answer.list.map(({ index, score }) => ({ value: String(index), label: `sequence ${index}, score ${number(score)}` }))}
        />
      </Group>
      {answer.problem && <p className="small soft">{answer.problem}</p>}
      {!answer.problem && !passages && <Skeletons heights={[160]} />}
      {passages && answer.text === "" && <p className="small soft">Empty answer.</p>}
      {passages && (
        <div className={viewerCss.raw} style={{ maxHeight: "none" }} data-text>
          {passages.map(({ kind, text, left_out }, index) => {
            const Tag = MARKS[kind];
            return (
              <Tag key={index}>
                {text}
                {left_out !== undefined && <i className="faint"> … {number(left_out)} equal characters … </i>}
              </Tag>
            );
          })}
        </div>
      )}
    </section>
  );
}

type Props = { run: string; left: Side; right: Side; onChange: (sides: { left: Side; right: Side }) => void };

/** The answers of two sequences side by side, with deletions on the left and insertions on the right. */
export function TextDiff({ run, left, right, onChange }: Props) {
  const [isFolded, setIsFolded] = useState(true);
  const one = useAnswer(run, left);
  const other = useAnswer(run, right);
  const found = useMemo(
    () => (one.text === undefined || other.text === undefined ? undefined : textDiff(one.text, other.text)),
    [one.text, other.text],
  );
  const passages = found && (isFolded ? folded(found.passages) : found.passages);
  const without = (kind: Passage["kind"], own: Answer, beside: Answer): Passage[] | undefined => {
    if (passages) return passages.filter((passage) => passage.kind !== kind);
    return beside.problem && own.text !== undefined ? [{ kind: "equal", text: own.text }] : undefined;
  };
  const of = (kind: Passage["kind"]) => found?.passages.filter((passage) => passage.kind === kind).length ?? 0;
  const isEqual = found !== undefined && of("removed") + of("added") === 0;
  return (
    <div className={styles.diff}>
      <Group gap="sm">
        <span role="status" className="small">
          {isEqual && "The answers are equal."}
          {found && !isEqual && (
            <>
              <del>{counted(of("removed"), "deletion")}</del> <ins>{counted(of("added"), "insertion")}</ins>{" "}
              {found.isCoarse && <span className="faint">Lines in which too many words differ are marked as a whole.</span>}
            </>
          )}
          {(one.isCut || other.isCut) && <span className="held"> The answers are longer than the compared text.</span>}
        </span>
        <Space flex={1} />
        <Checkbox size="xs" label="Fold equal text" checked={isFolded} onChange={(event) => setIsFolded(event.currentTarget.checked)} />
      </Group>
      <SimpleGrid cols={{ base: 1, md: 2 }} mt="xs">
        <Column
          name="Left"
          run={run}
          side={left}
          answer={one}
          passages={without("added", one, other)}
          onChange={(side) => onChange({ left: side, right })}
        />
        <Column
          name="Right"
          run={run}
          side={right}
          answer={other}
          passages={without("removed", other, one)}
          onChange={(side) => onChange({ left, right: side })}
        />
      </SimpleGrid>
    </div>
  );
}
