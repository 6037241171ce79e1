import { Button, SegmentedControl, Space, TextInput } from "@mantine/core";
import { useLocalStorage } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useRef, useState } from "react";
import { type MessagePart, type MessageView, messagesQuery, type Picture, type SequenceList, windowQuery } from "@/api/groups";
import { onDemand } from "@/components/onDemand";
import { Boundary, EmptyState, ErrorState, Skeletons } from "@/components/panels";
import { bytes, counted, number, visible } from "@/format";
import { matchesIn, show } from "@/pages/viewer/find";
import styles from "@/pages/viewer/messages.module.css";

const Markdown = onDemand(() => import("@/components/Markdown"), "default");

/** A longer text is shown as written: formatting it would stop the page for seconds. */
const MOST_FORMATTED = 100_000;

const FIRST_CHARACTERS = 20_000;
const MOST_CHARACTERS = 1 << 20;
const DECODED_TOKENS = 8192;

type Place = { run: string; group: number; sequence: number };
type Form = "formatted" | "raw";

/** The number of characters of a message that are not loaded. */
const leftOf = ({ characters, parts, extra, extra_characters }: MessageView) =>
  characters - parts.reduce((sum, { text }) => sum + text.length, 0) + extra_characters - extra.length;

/** What a collapsed message contains. */
function contentsOf({ parts, characters }: MessageView): string {
  const calls = parts.flatMap(({ kind, name }) => (kind === "tool_call" ? [visible(name) || "a tool"] : []));
  return [`${number(characters)} characters`, ...(calls.length > 0 ? [`calls ${calls.join(", ")}`] : [])].join(" · ");
}

type MessageProps = {
  message: MessageView;
  place: Place;
  isRaw: boolean;
  isOpen: boolean;
  /** Names of the tools by the ids of their calls. */
  tools: ReadonlyMap<string, string>;
  onToggle: () => void;
};

function Message({ message, place, isRaw, isOpen, tools, onToggle }: MessageProps) {
  const [characters, setCharacters] = useState(FIRST_CHARACTERS);
  const more = useQuery({
    ...messagesQuery(place.run, place.group, place.sequence, characters, message.index),
    enabled: characters > FIRST_CHARACTERS,
    placeholderData: (before) => before,
  });
  const shown = more.data?.results[0] ?? message;
  const { parts, extra } = shown;
  const left = leftOf(shown);
  const longest = Math.max(extra.length, ...parts.map(({ text }) => text.length));
  return (
    <section className={styles.message} aria-label={`Message ${message.index + 1}, ${visible(message.role)}`} data-role={message.role}>
      <header>
        <button type="button" className={styles.role} aria-expanded={isOpen} onClick={onToggle}>
          <span aria-hidden="true">{isOpen ? "▾" : "▸"}</span>
          {visible(message.role) || "no role"}
        </button>
        <span className="faint tiny">{contentsOf(message)}</span>
      </header>
      {isOpen && (
        <>
          {parts.map((part, index) => (
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
              Show more of {number(left)} characters
            </Button>
          )}
          {left > 0 && longest >= MOST_CHARACTERS && <p className="faint tiny">{number(left)} more characters are in the export.</p>}
          {extra && (
            <details className={styles.fold}>
              <summary>Other fields</summary>
              <pre className={styles.text}>{visible(extra)}</pre>
            </details>
          )}
        </>
      )}
    </section>
  );
}

/** The turns of a sequence decoded from tokens, for groups without messages. */
function Decoded({ place, list }: { place: Place; list: SequenceList }) {
  const window = useQuery(windowQuery(place.run, place.group, place.sequence, 0, DECODED_TOKENS));
  const sequence = list.results[place.sequence];
  if (window.isError && !window.data) return <ErrorState title="Text unavailable" error={window.error} />;
  if (!window.data?.text || !sequence) return <Skeletons heights={[160]} />;
  const texts = window.data.text;
  const turns = sequence.turns.filter(([start]) => start < texts.length);
  return (
    <>
      {turns.map(([start, end, isOwn]) => (
        <section key={start} className={styles.message} data-role={isOwn ? "assistant" : "user"} aria-label={isOwn ? "Policy" : "Prompt"}>
          <header>
            <b className="small">{isOwn ? "policy" : start === 0 ? "prompt" : "environment"}</b>
            <span className="faint tiny">
              tokens {number(start)} to {number(end - 1)}
            </span>
          </header>
          <pre className={styles.text}>{visible(texts.slice(start, end).join(""))}</pre>
        </section>
      ))}
      {sequence.tokens > texts.length && <p className="faint tiny">The rest is in the Tokens view.</p>}
    </>
  );
}

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
        {needle && left > 0 && `; ${number(left)} characters are not loaded`}
      </span>
    </>
  );
}

/** The messages of a sequence, each part in the form of its kind. */
export function Messages({ run, group, sequence, list }: Place & { list: SequenceList }) {
  const place = { run, group, sequence };
  const root = useRef<HTMLDivElement>(null);
  const [form, setForm] = useLocalStorage<Form>({ key: "rolldeck.messages", defaultValue: "formatted" });
  const [closed, setClosed] = useState<ReadonlySet<number>>(new Set());
  const firstPage = useQuery({ ...messagesQuery(run, group, sequence, FIRST_CHARACTERS), enabled: list.has_messages });
  const messages = firstPage.data?.results;
  const tools = useMemo(() => {
    const calls = (messages ?? []).flatMap(({ parts }) => parts.filter(({ kind, call_id }) => kind === "tool_call" && call_id));
    return new Map(calls.map(({ call_id, name }) => [call_id, name]));
  }, [messages]);
  if (!list.has_messages && list.has_text) return <Decoded place={place} list={list} />;
  if (!list.has_messages) {
    return (
      <EmptyState title="No messages in this group" command={`rolldeck run tokenizer ${run} tokenizer.json`}>
        The environment sent only tokens, and the run has no tokenizer. The token ids are in the Tokens view. This command stores the
        tokenizer:
      </EmptyState>
    );
  }
  if (firstPage.isError && !firstPage.data) return <ErrorState title="Messages unavailable" error={firstPage.error} />;
  if (!firstPage.data || !messages) return <Skeletons heights={[90, 160]} />;
  if (firstPage.data.total === 0 && firstPage.data.pictures.length === 0) {
    return <p className="soft">No messages in this sequence. Other sequences of the group may have messages.</p>;
  }
  const toggle = (index: number) =>
    setClosed((before) => {
      const after = new Set(before);
      if (!after.delete(index)) after.add(index);
      return after;
    });
  const areClosed = closed.size >= messages.length;
  return (
    <>
      <div className={styles.bar}>
        <SegmentedControl
          size="xs"
          aria-label="Form of texts"
          value={form}
          onChange={(value) => setForm(value as Form)}
          data={[
            { value: "formatted", label: "Formatted" },
            { value: "raw", label: "As written" },
          ]}
        />
        {messages.length > 1 && (
          <Button
            size="compact-xs"
            variant="default"
            onClick={() => setClosed(new Set(areClosed ? [] : messages.map(({ index }) => index)))}
          >
            {areClosed ? "Expand all" : "Collapse all"}
          </Button>
        )}
        <Find root={root} left={messages.reduce((sum, message) => sum + leftOf(message), 0)} />
        <Space flex={1} />
        <span className="faint tiny">{counted(firstPage.data.total, "message")}</span>
      </div>
      <div ref={root}>
        {messages.map((message) => (
          <Boundary key={message.index} part="Message" data={message}>
            <Message
              message={message}
              place={place}
              isRaw={form === "raw"}
              isOpen={!closed.has(message.index)}
              tools={tools}
              onToggle={() => toggle(message.index)}
            />
          </Boundary>
        ))}
      </div>
      {firstPage.data.total > messages.length && (
        <p className="faint tiny">{number(firstPage.data.total - messages.length)} more messages are in the export.</p>
      )}
      <Pictures pictures={firstPage.data.pictures} />
    </>
  );
}

function Pictures({ pictures }: { pictures: Picture[] }) {
  return (
    <div className={styles.pictures}>
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
    </div>
  );
}

type PartProps = {
  part: MessagePart;
  /** Show texts as written. */
  isRaw: boolean;
  /** The tool of a result, if its call is known. */
  tool: string;
};

/** A part of a message, in the form of its kind. */
function Part({ part, isRaw, tool }: PartProps) {
  const { kind, text, name } = part;
  const written = <pre className={styles.text}>{visible(text)}</pre>;
  switch (kind) {
    case "text":
      if (isRaw || text.length > MOST_FORMATTED) return <div data-part="text">{written}</div>;
      return (
        <div data-part="text" className={styles.formatted}>
          <Markdown text={text} isForeign />
        </div>
      );
    case "reasoning":
      return (
        <details className={styles.fold} data-part="reasoning">
          <summary>Reasoning, {number(part.characters)} characters</summary>
          {written}
        </details>
      );
    case "tool_call":
      return (
        <div className={styles.tool} data-part="tool_call">
          <div className={styles.toolHead}>
            Call <b>{visible(name) || "without a name"}</b>
          </div>
          {text && written}
        </div>
      );
    case "tool_result":
      return (
        <div className={styles.tool} data-part="tool_result" data-failed={part.is_error || undefined}>
          <div className={styles.toolHead}>
            {part.is_error ? "Error" : "Result"} {(name || tool) && <b>{visible(name || tool)}</b>}
          </div>
          {text && written}
        </div>
      );
    case "image":
      return part.picture && <Pictures pictures={[part.picture]} />;
    default:
      return (
        <details className={styles.fold} data-part="other">
          <summary>{visible(name) || "Other content"}</summary>
          {written}
        </details>
      );
  }
}
