import type { MessagePart, Picture } from "@/api/groups";
import { onDemand } from "@/components/onDemand";
import { bytes, number, visible } from "@/format";
import styles from "@/pages/viewer/messages.module.css";

const Markdown = onDemand(() => import("@/components/Markdown"), "default");

/** A longer text is shown as written: formatting it would stop the page for seconds. */
const MOST_FORMATTED = 100_000;

export function Pictures({ pictures }: { pictures: Picture[] }) {
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

type Props = {
  part: MessagePart;
  /** Show texts as written. */
  isRaw: boolean;
  /** The tool of a result, if its call is known. */
  tool: string;
};

/** A part of a message, in the form of its kind. */
export function Part({ part, isRaw, tool }: Props) {
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
