import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { type MessageView, messagesQuery, type Picture, type SequenceList, windowQuery } from "@/api/groups";
import { EmptyState } from "@/components/EmptyState";
import { ErrorState } from "@/components/ErrorState";
import { Skeletons } from "@/components/Skeletons";
import { bytes, number, visible } from "@/format";
import styles from "@/pages/viewer/viewer.module.css";

const FIRST_CHARACTERS = 20_000;
const MOST_CHARACTERS = 1 << 20;
const DECODED_TOKENS = 8192;

type Place = { run: string; group: number; sequence: number };

function Pictures({ pictures }: { pictures: Picture[] }) {
  return (
    <div className={styles.pictures}>
      {pictures.map((picture, index) =>
        picture.data === null ? (
          <p key={index} className="faint tiny">
            Image of {bytes(picture.size_bytes)} omitted: larger than 1 MiB.
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

function Message({ message, place }: { message: MessageView; place: Place }) {
  const [characters, setCharacters] = useState(FIRST_CHARACTERS);
  const more = useQuery({
    ...messagesQuery(place.run, place.group, place.sequence, characters, message.index),
    enabled: characters > FIRST_CHARACTERS,
    placeholderData: (before) => before,
  });
  const { text, extra } = more.data?.results[0] ?? message;
  const left = message.characters - text.length + message.extra_characters - extra.length;
  const longest = Math.max(text.length, extra.length);
  return (
    <section className={styles.message} aria-label={`Message ${message.index + 1}, ${visible(message.role)}`} data-role={message.role}>
      <header>
        <span className={styles.role}>{visible(message.role) || "no role"}</span>
        <span className="faint tiny">{number(message.characters)} characters</span>
      </header>
      {text && <pre className={styles.text}>{visible(text)}</pre>}
      <Pictures pictures={message.pictures} />
      {left > 0 && longest < MOST_CHARACTERS && (
        <Button
          size="compact-sm"
          variant="default"
          loading={more.isFetching}
          onClick={() => setCharacters(Math.min(MOST_CHARACTERS, longest * 4))}
        >
          Show more of {number(left)} characters
        </Button>
      )}
      {left > 0 && longest >= MOST_CHARACTERS && <p className="faint tiny">{number(left)} more characters are in the export.</p>}
      {extra && (
        <details className={styles.extra}>
          <summary>Other fields</summary>
          <pre className={styles.text}>{visible(extra)}</pre>
        </details>
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
            <span className={styles.role}>{isOwn ? "policy" : start === 0 ? "prompt" : "environment"}</span>
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

/** The messages of a sequence as plain text. */
export function Messages({ run, group, sequence, list }: Place & { list: SequenceList }) {
  const place = { run, group, sequence };
  const firstPage = useQuery({ ...messagesQuery(run, group, sequence, FIRST_CHARACTERS), enabled: list.has_messages });
  if (!list.has_messages && list.has_text) return <Decoded place={place} list={list} />;
  if (!list.has_messages) {
    return (
      <EmptyState title="No messages in this group">
        The environment sent only tokens, and no tokenizer is configured. The token ids are in the Tokens view.
      </EmptyState>
    );
  }
  if (firstPage.isError && !firstPage.data) return <ErrorState title="Messages unavailable" error={firstPage.error} />;
  if (!firstPage.data) return <Skeletons heights={[90, 160]} />;
  if (firstPage.data.total === 0 && firstPage.data.pictures.length === 0) {
    return <EmptyState title="No messages in this sequence">Other sequences of the group may have messages.</EmptyState>;
  }
  return (
    <>
      {firstPage.data.results.map((message) => (
        <Message key={message.index} message={message} place={place} />
      ))}
      {firstPage.data.total > firstPage.data.results.length && (
        <p className="faint tiny">{number(firstPage.data.total - firstPage.data.results.length)} more messages are in the export.</p>
      )}
      <Pictures pictures={firstPage.data.pictures} />
    </>
  );
}
