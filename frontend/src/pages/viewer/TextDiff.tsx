import { Checkbox, NativeSelect, Space, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { groupQuery, messagesQuery, sequencesQuery, windowQuery } from "@/api/groups";
import { Skeletons } from "@/components/panels";
import { counted, number, versionName, visible } from "@/format";
import { type Side, sideOfLink } from "@/pages/viewer/sides";
import { folded, type Passage, textDiff, transcript } from "@/pages/viewer/textDiff";
import styles from "@/pages/viewer/textDiff.module.css";

/** Characters of each part of a message that are compared. */
const MOST_CHARACTERS = 100_000;
const DECODED_TOKENS = 8192;

type Answer = { text: string | undefined; isCut: boolean; problem: string };

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
    if (error) return { text: undefined, isCut: false, problem: error.message };
    if (list && !own) return { text: undefined, isCut: false, problem: `The group has no sequence ${sequence}.` };
    if (messages.data) {
      const { results, total } = messages.data;
      const isCut = total > results.length || results.some(({ parts }) => parts.some((part) => part.text.length < part.characters));
      return { text: transcript(results), isCut, problem: "" };
    }
    if (tokens.data) {
      const { text, tokens: ids, is_own, total } = tokens.data;
      const first = Math.max(0, is_own.indexOf(true));
      return { text: text ? visible(text.slice(first).join("")) : ids.slice(first).join(" "), isCut: total > DECODED_TOKENS, problem: "" };
    }
    return { text: undefined, isCut: false, problem: "" };
  }, [list, own, sequence, sequences.error, messages.data, messages.error, tokens.data, tokens.error]);
  return { ...answer, list: list?.results ?? [] };
}

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
    <section className={styles.column} aria-label={`${name}: group ${side.group}, sequence ${side.sequence}`}>
      <header>
        <Link to="/runs/$name/groups/$group" params={{ name: run, group: String(side.group) }} search={{ seq: side.sequence }}>
          {side.run && `${side.run} · `}Group {side.group}
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
      </header>
      {answer.problem && <p className="small soft">{answer.problem}</p>}
      {!answer.problem && !passages && <Skeletons heights={[160]} />}
      {passages && answer.text === "" && <p className="small soft">Empty answer.</p>}
      {passages && (
        <div className={styles.text} data-text>
          {passages.map((passage, index) => (
            <Marked key={index} passage={passage} />
          ))}
        </div>
      )}
    </section>
  );
}

function Marked({ passage: { kind, text, left_out } }: { passage: Passage }) {
  if (kind === "removed") return <del>{text}</del>;
  if (kind === "added") return <ins>{text}</ins>;
  return (
    <span>
      {text}
      {left_out !== undefined && <i className={styles.folded}> … {number(left_out)} equal characters … </i>}
    </span>
  );
}

/** The field for the link of the sequence on the right. */
function LinkField({ onSide }: { onSide: (side: Side) => void }) {
  const [link, setLink] = useState("");
  const isOther = link.trim() !== "" && !sideOfLink(link);
  return (
    <TextInput
      size="xs"
      aria-label="Link of a group to compare with"
      placeholder="Link of another group"
      value={link}
      error={isOther && "Not a link of a group"}
      onChange={(event) => {
        const written = event.currentTarget.value;
        const side = sideOfLink(written);
        setLink(side ? "" : written);
        if (side) onSide(side);
      }}
      onKeyDown={(event) => event.stopPropagation()}
    />
  );
}

type Props = {
  /** The open run. */
  run: string;
  left: Side;
  right: Side;
  onChange: (sides: { left: Side; right: Side }) => void;
};

/** The answers of two sequences side by side, with deletions on the left and insertions on the right. */
export function TextDiff({ run, left, right, onChange }: Props) {
  const [isFolded, setIsFolded] = useState(true);
  const one = useAnswer(left.run ?? run, left);
  const other = useAnswer(right.run ?? run, right);
  const found = useMemo(
    () => (one.text === undefined || other.text === undefined ? undefined : textDiff(one.text, other.text)),
    [one.text, other.text],
  );
  const passages = found && (isFolded ? folded(found.passages) : found.passages);
  const alone = (text: string | undefined): Passage[] | undefined => (text === undefined ? undefined : [{ kind: "equal", text }]);
  const of = (kind: Passage["kind"]) => found?.passages.filter((passage) => passage.kind === kind).length ?? 0;
  const isEqual = found !== undefined && of("removed") + of("added") === 0;
  return (
    <div className={styles.diff}>
      <div className={styles.bar}>
        <p role="status" className="small">
          {isEqual && "The answers are equal."}
          {found && !isEqual && (
            <>
              <del>{counted(of("removed"), "deletion")}</del> <ins>{counted(of("added"), "insertion")}</ins>{" "}
              {found.isCoarse && <span className="faint">Lines in which too many words differ are marked as a whole.</span>}
            </>
          )}
          {(one.isCut || other.isCut) && <span className="held"> The answers are longer than the compared text.</span>}
        </p>
        <Space flex={1} />
        <LinkField onSide={(side) => onChange({ left, right: side })} />
        <Checkbox size="xs" label="Fold equal text" checked={isFolded} onChange={(event) => setIsFolded(event.currentTarget.checked)} />
      </div>
      <div className={styles.columns}>
        <Column
          name="Left"
          run={left.run ?? run}
          side={left}
          answer={one}
          passages={passages?.filter(({ kind }) => kind !== "added") ?? (other.problem ? alone(one.text) : undefined)}
          onChange={(side) => onChange({ left: side, right })}
        />
        <Column
          name="Right"
          run={right.run ?? run}
          side={right}
          answer={other}
          passages={passages?.filter(({ kind }) => kind !== "removed") ?? (one.problem ? alone(other.text) : undefined)}
          onChange={(side) => onChange({ left, right: side })}
        />
      </div>
    </div>
  );
}
