import { Button, Group, Paper, SegmentedControl, Space, TextInput } from "@mantine/core";
import { useLocalStorage } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useDeferredValue, useEffect, useMemo, useRef, useState } from "react";
import {
  type MessagePart,
  type MessageView,
  messagesQuery,
  type Picture,
  type SequenceList,
  type SequenceSummary,
  windowQuery,
} from "@/api/groups";
import { onDemand } from "@/components/onDemand";
import { Boundary, EmptyState, ErrorState, Skeletons } from "@/components/panels";
import { bytes, counted, number, visible } from "@/format";
import { matchesIn, show } from "@/pages/viewer/find";
import styles from "@/pages/viewer/messages.module.css";
import viewerCss from "@/pages/viewer/viewer.module.css";

const Markdown = onDemand(() => import("@/components/Markdown"), "default");

/** A longer text is shown as written: formatting it would stop the page for seconds. */
const MOST_FORMATTED = 100_000;

/** Messages that are drawn at once. */
const FIRST_DRAWN = 40;
const FIRST_CHARACTERS = 20_000;
const MOST_CHARACTERS = 1 << 20;
const DECODED_TOKENS = 8192;

type Place = { run: string; group: number; sequence: number };

/** The number of characters of a message that are not loaded. */
const leftOf = ({ characters, parts, extra, extra_characters }: MessageView) =>
  characters - parts.reduce((sum, { text }) => sum + text.length, 0) + extra_characters - extra.length;

/** What a collapsed message contains. */
function contentsOf({ parts, characters }: MessageView): string {
  const calls = parts.flatMap(({ kind, name }) => (kind === "tool_call" ? [visible(name) || "a tool"] : []));
  return [counted(characters, "character"), ...(calls.length > 0 ? [`calls ${calls.join(", ")}`] : [])].join(" · ");
}

type MessageProps = {
  message: MessageView;
  place: Place;
  isRaw: boolean;
  isOpen: boolean;
  /** Names of the tools by the ids of their calls. */
  tools: ReadonlyMap<string, string>;
};

function Message({ message, place, isRaw, isOpen, tools }: MessageProps) {
  const [characters, setCharacters] = useState(FIRST_CHARACTERS);
  const more = useQuery({
    ...messagesQuery(place.run, place.group, place.sequence, characters, message.index),
    enabled: characters > FIRST_CHARACTERS,
    placeholderData: (before) => before,
  });
  const shown = more.data?.results[0] ?? message;
  const left = leftOf(shown);
  const longest = Math.max(shown.extra.length, ...shown.parts.map(({ text }) => text.length));
  return (
    <section className={styles.message} aria-label={`Message ${message.index + 1}, ${visible(message.role)}`} data-role={message.role}>
      <details open={isOpen}>
        <summary>
          <b className="small">{visible(message.role) || "no role"}</b> <span className="faint tiny">{contentsOf(message)}</span>
        </summary>
        {shown.parts.map((part, index) => (
          <Part key={index} part={part} isRaw={isRaw} tool={tools.get(part.call_id) ?? ""} />
        ))}
        {left > 0 && longest < MOST_CHARACTERS && (
          <Button
            size="compact-sm"
            variant="default"
            mt="xs"
            loading={more.isFetching}
            onClick={() => setCharacters(Math.min(MOST_CHARACTERS, Math.max(FIRST_CHARACTERS, longest) * 4))}
          >
            Show more of {counted(left, "character")}
          </Button>
        )}
        {left > 0 && longest >= MOST_CHARACTERS && <p className="faint tiny">{number(left)} more characters are in the export.</p>}
        {shown.extra && <Fold title="Other fields" text={shown.extra} />}
      </details>
    </section>
  );
}

/** The turns of a sequence decoded from tokens, for groups without messages. */
const decoded = (texts: string[], { turns }: SequenceSummary): MessageView[] =>
  turns
    .filter(([start]) => start < texts.length)
    .map(([start, end, isOwn], index) => {
      const text = texts.slice(start, end).join("");
      const part = { kind: "text" as const, text, characters: text.length, name: "", call_id: "", is_error: false, picture: null };
      const role = isOwn ? "policy" : start === 0 ? "prompt" : "environment";
      return { index, role, parts: [part], characters: text.length, extra: "", extra_characters: 0 };
    });

/** Search the transcript below; Enter goes to the next match. */
function Find({ root, left }: { root: React.RefObject<HTMLElement | null>; left: number }) {
  const [found, setFound] = useState({ matches: 0, current: 0 });
  const [needle, setNeedle] = useState("");
  useEffect(() => () => show([], 0), []);
  const find = (text: string, current: number) => {
    // Texts may have been formatted or loaded since.
    const ranges = root.current ? matchesIn(root.current, "[data-part]", text) : [];
    const place = ranges.length > 0 ? (current + ranges.length) % ranges.length : 0;
    setNeedle(text);
    setFound({ matches: ranges.length, current: place });
    show(ranges, place);
  };
  const { matches, current } = found;
  const result = matches > 0 ? `${number(current + 1)} of ${number(matches)}` : "no match";
  return (
    <>
      <TextInput
        size="xs"
        aria-label="Find in messages"
        placeholder="Find in messages"
        value={needle}
        onChange={(event) => find(event.currentTarget.value, 0)}
        onKeyDown={(event) => {
          // The page's shortcuts have the same keys.
          event.stopPropagation();
          if (event.key === "Enter") find(needle, current + (event.shiftKey ? -1 : 1));
          if (event.key === "Escape") find("", 0);
        }}
      />
      <span className="soft small" role="status">
        {needle && result}
        {needle && left > 0 && `; ${counted(left, "character is", "characters are")} not loaded`}
      </span>
    </>
  );
}

/** The messages of a sequence, each part in the form of its kind. */
export function Messages({ run, group, sequence, list }: Place & { list: SequenceList }) {
  const place = { run, group, sequence };
  const root = useRef<HTMLDivElement>(null);
  const [form, setForm] = useLocalStorage({ key: "rolldeck.messages", defaultValue: "formatted" });
  const [isOpen, setOpen] = useState(true);
  const isDecoded = !list.has_messages && list.has_text;
  const asked = useQuery({ ...messagesQuery(run, group, sequence, FIRST_CHARACTERS), enabled: list.has_messages });
  const tokens = useQuery({ ...windowQuery(run, group, sequence, 0, DECODED_TOKENS), enabled: isDecoded });
  const own = list.results[sequence];
  const texts = tokens.data?.text;
  const messages = useMemo(
    () => (isDecoded ? texts && own && decoded(texts, own) : asked.data?.results),
    [isDecoded, texts, own, asked.data],
  );
  // The others follow while the page already responds.
  const areAllDrawn = useDeferredValue(messages !== undefined, false);
  const tools = useMemo(() => {
    const calls = (messages ?? []).flatMap(({ parts }) => parts.filter(({ kind, call_id }) => kind === "tool_call" && call_id));
    return new Map(calls.map(({ call_id, name }) => [call_id, name]));
  }, [messages]);
  if (!list.has_messages && !isDecoded) {
    return (
      <EmptyState title="No messages in this group" command={`rolldeck run tokenizer ${run} tokenizer.json`}>
        The environment sent only tokens, and the run has no tokenizer. The token ids are in the Tokens view. This command stores the
        tokenizer:
      </EmptyState>
    );
  }
  const error = asked.error ?? tokens.error;
  if (!messages) return error ? <ErrorState title="Messages unavailable" error={error} /> : <Skeletons heights={[90, 160]} />;
  const { total, pictures } = asked.data ?? { total: messages.length, pictures: [] };
  if (messages.length === 0 && pictures.length === 0) {
    return <p className="soft">No messages in this sequence. Other sequences of the group may have messages.</p>;
  }
  return (
    <>
      <Group gap="xs" mb="sm">
        {!isDecoded && (
          <SegmentedControl
            size="xs"
            aria-label="Form of texts"
            value={form}
            onChange={setForm}
            data={[
              { value: "formatted", label: "Formatted" },
              { value: "raw", label: "As written" },
            ]}
          />
        )}
        <Button size="compact-xs" variant="default" onClick={() => setOpen(!isOpen)}>
          {isOpen ? "Collapse all" : "Expand all"}
        </Button>
        <Find root={root} left={messages.reduce((sum, message) => sum + leftOf(message), 0)} />
        <Space flex={1} />
        <span className="faint tiny">{counted(total, "message")}</span>
      </Group>
      <div ref={root}>
        {messages.slice(0, areAllDrawn ? undefined : FIRST_DRAWN).map((message) => (
          <Boundary key={message.index} part="Message" data={message}>
            <Message message={message} place={place} isRaw={isDecoded || form === "raw"} isOpen={isOpen} tools={tools} />
          </Boundary>
        ))}
      </div>
      {total > messages.length && <p className="faint tiny">{number(total - messages.length)} more messages are in the export.</p>}
      {texts && own && own.tokens > texts.length && <p className="faint tiny">The rest is in the Tokens view.</p>}
      <Pictures pictures={pictures} />
    </>
  );
}

const Pictures = ({ pictures }: { pictures: Picture[] }) => (
  <Group gap="xs" className={styles.pictures}>
    {pictures.map((picture, index) =>
      picture.data === null ? (
        <p key={index} className="faint tiny">
          Image of {bytes(picture.size_bytes)} omitted: larger than 1 MiB, or after 16 others.
        </p>
      ) : (
        <img
          key={index}
          src={`data:${picture.media_type};base64,${picture.data}`}
          alt={`${picture.media_type}, ${bytes(picture.size_bytes)}`}
          loading="lazy"
        />
      ),
    )}
  </Group>
);

const Fold = ({ title, text }: { title: string; text: string }) => (
  <details className={styles.fold}>
    <summary>{title}</summary>
    <pre className={viewerCss.text}>{visible(text)}</pre>
  </details>
);

type PartProps = {
  part: MessagePart;
  /** Show texts as written. */
  isRaw: boolean;
  /** The tool of a result, if its call is known. */
  tool: string;
};

/** A part of a message, in the form of its kind. */
function Part({ part: { kind, text, name, characters, is_error, picture }, isRaw, tool }: PartProps) {
  const written = text && <pre className={viewerCss.text}>{visible(text)}</pre>;
  if (kind === "image") return picture && <Pictures pictures={[picture]} />;
  if (kind === "text") {
    const isFormatted = !isRaw && text.length <= MOST_FORMATTED;
    return (
      <div data-part="text" className={isFormatted ? styles.formatted : undefined}>
        {isFormatted ? <Markdown text={text} isForeign /> : written}
      </div>
    );
  }
  if (kind === "tool_call" || kind === "tool_result") {
    const called = visible(name || tool);
    return (
      <Paper withBorder mt="xs" px="sm" py={6} className={styles.tool} data-part={kind} data-failed={is_error || undefined}>
        <span className="tiny soft">
          {kind === "tool_call" ? "Call" : is_error ? "Error" : "Result"}{" "}
          <b className="mono">{called || (kind === "tool_call" && "without a name")}</b>
        </span>
        {written}
      </Paper>
    );
  }
  return (
    <div data-part={kind}>
      <Fold
        title={kind === "reasoning" ? `Reasoning, ${counted(characters, "character")}` : visible(name) || "Other content"}
        text={text}
      />
    </div>
  );
}
