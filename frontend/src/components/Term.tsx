import { Popover } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import {
  type FocusEvent,
  type KeyboardEvent,
  type MouseEvent,
  type PointerEvent,
  type ReactNode,
  useEffect,
  useId,
  useRef,
  useState,
} from "react";
import { useEscape } from "@/components/useEscape";
import { anchorOf, type Entry, entryOf } from "@/pages/guide/glossary";

const OPEN_MS = 200;
const CLOSE_MS = 200;

type MeaningProps = { id: string; entry: Entry; onClose: () => void };

function Meaning({ id, entry, onClose }: MeaningProps) {
  useEscape(onClose);
  return (
    <>
      <span id={id}>{entry.meaning}</span>{" "}
      <Link to="/guide/$" params={{ _splat: "glossary" }} hash={anchorOf(entry.words[0] ?? "")} onClick={onClose}>
        Glossary
      </Link>
    </>
  );
}

type Props = {
  /** The term in the glossary. */
  of: string;
  children: ReactNode;
};

/**
 * A word of this product with its meaning from the glossary.
 *
 * The meaning is shown on hover, on focus and by a tap; Enter moves the focus to its link, Escape closes it.
 */
export function Term({ of, children }: Props) {
  const [isOpen, setOpen] = useState(false);
  const word = useRef<HTMLSpanElement>(null);
  const card = useRef<HTMLDivElement>(null);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const id = useId();
  useEffect(() => () => clearTimeout(timer.current), []);
  const entry = entryOf(of);
  if (!entry) return children;

  const later = (ms: number, next: boolean) => {
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setOpen(next), ms);
  };
  // A tap enters and leaves too, but opens by its click.
  const hover = {
    onPointerEnter: (event: PointerEvent) => event.pointerType === "mouse" && later(OPEN_MS, true),
    onPointerLeave: (event: PointerEvent) => event.pointerType === "mouse" && later(CLOSE_MS, false),
  };
  const close = () => {
    clearTimeout(timer.current);
    if (card.current?.contains(document.activeElement)) word.current?.focus();
    setOpen(false);
  };
  const blur = (event: FocusEvent) => !card.current?.contains(event.relatedTarget) && setOpen(false);
  const click = (event: MouseEvent) => {
    // Within a label, a click would activate its input.
    event.preventDefault();
    clearTimeout(timer.current);
    setOpen((old) => !old || event.detail === 0);
  };
  const press = (event: KeyboardEvent) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    setOpen(true);
    // The card may be mounted by this key.
    setTimeout(() => card.current?.querySelector("a")?.focus());
  };
  const pressWithin = (event: KeyboardEvent) => {
    if (event.key !== "Tab") return;
    event.preventDefault();
    close();
  };
  return (
    <Popover
      opened={isOpen}
      onChange={setOpen}
      width={300}
      position="bottom-start"
      withArrow
      shadow="md"
      withRoles={false}
      closeOnEscape={false}
      transitionProps={{ duration: 0 }}
    >
      <Popover.Target>
        <span
          ref={word}
          role="button"
          tabIndex={0}
          className="term"
          data-term={of}
          aria-expanded={isOpen}
          aria-describedby={isOpen ? id : undefined}
          {...hover}
          onFocus={(event) => event.currentTarget.matches(":focus-visible") && setOpen(true)}
          onBlur={blur}
          onClick={click}
          onKeyDown={press}
        >
          {children}
        </span>
      </Popover.Target>
      <Popover.Dropdown ref={card} className="term-card" data-meaning={of} {...hover} onKeyDown={pressWithin}>
        <Meaning id={id} entry={entry} onClose={close} />
      </Popover.Dropdown>
    </Popover>
  );
}

/** A text in which the first occurrence of a term is explained; the entire text if it does not contain the term. */
export function Termed({ text, term }: { text: string; term: string | undefined }) {
  if (!term) return text;
  const at = text.toLowerCase().indexOf(term.toLowerCase());
  const end = at < 0 ? text.length : at + (/^\w*/.exec(text.slice(at + term.length))?.[0].length ?? 0) + term.length;
  return (
    <>
      {text.slice(0, Math.max(0, at))}
      <Term of={term}>{text.slice(Math.max(0, at), end)}</Term>
      {text.slice(end)}
    </>
  );
}
