import { Kbd, Modal } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { Search } from "lucide-react";
import { type KeyboardEvent, useEffect, useId, useRef, useState } from "react";
import { copyText } from "@/charts/save";
import { counted, visible } from "@/format";
import type { Command } from "@/shell/palette/commands";
import { pieces, ranked, type Shown, sections } from "@/shell/palette/rank";
import { recentIds, remember } from "@/shell/palette/recent";
import { useCommands } from "@/shell/palette/useCommands";
import css from "./palette.module.css";

const SHOWN_AT_MOST = 80;
const PAGE_ROWS = 8;
const TYPED_MS = 120;

/** These keep the palette open to confirm the copy. */

type Props = {
  typed: string;
  onType: (text: string) => void;
  /** Enter was pressed before the search had ended. */
  isEntered: boolean;
  onEnter: () => void;
  onClose: (then?: () => void) => void;
  onHelp: () => void;
};

function Title({ title, at }: { title: string; at: number[] }) {
  return (
    <span className={css.title}>
      {pieces(title, at).map(({ text, isMarked }, place) =>
        // Pieces have no key but their index.
        isMarked ? <mark key={place}>{visible(text)}</mark> : <span key={place}>{visible(text)}</span>,
      )}
    </span>
  );
}

type OptionProps = { shown: Shown; id: string; isActive: boolean; isTyped: boolean; onHover: () => void; onPick: () => void };

function Option({ shown: { command, at }, id, isActive, isTyped, onHover, onPick }: OptionProps) {
  const row = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (isActive) row.current?.scrollIntoView({ block: "nearest" });
  }, [isActive]);
  return (
    <div
      ref={row}
      id={id}
      role="option"
      tabIndex={-1}
      aria-selected={isActive}
      className={css.option}
      onMouseMove={onHover}
      onClick={onPick}
    >
      <Title title={command.title} at={at} />
      {command.note && <span className={css.note}>{visible(command.note)}</span>}
      <span className={css.aside}>
        {command.keys
          ? command.keys.map((key) => (
              <Kbd key={key} size="xs">
                {key}
              </Kbd>
            ))
          : isTyped && command.group}
      </span>
    </div>
  );
}

/** The command palette: type, select, Enter. */
export function Palette({ typed, onType, isEntered, onEnter, onClose, onHelp }: Props) {
  const [active, setActive] = useState(0);
  const [announcement, setAnnouncement] = useState("");
  const [recent] = useState(recentIds);
  const [asked] = useDebouncedValue(typed.trim(), TYPED_MS);
  const id = useId();
  const copy = (text: string, what: string) => {
    copyText(text);
    setAnnouncement(`${what} copied`);
  };
  const { commands, isLooking } = useCommands(asked, { onHelp, onCopied: copy });
  const shown = ranked(commands, typed, recent).slice(0, SHOWN_AT_MOST);
  const at = Math.min(active, shown.length - 1);

  const pick = (command: Command | undefined) => {
    if (!command) return;
    if (command.id === "general:copy") return command.act();
    if (command.group !== "This page") remember(command.id);
    onClose(command.act);
  };
  useEffect(() => {
    if (isEntered && !isLooking && asked === typed.trim()) pick(shown[at]?.command);
  });
  const press = (event: KeyboardEvent) => {
    const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: PAGE_ROWS, PageUp: -PAGE_ROWS };
    const by = steps[event.key];
    if (by !== undefined && shown.length > 0) {
      const next = at + by;
      const isWrapping = Math.abs(by) === 1;
      setActive(isWrapping ? (next + shown.length) % shown.length : Math.max(0, Math.min(shown.length - 1, next)));
    } else if (event.key === "Enter") shown.length > 0 ? pick(shown[at]?.command) : onEnter();
    else return;
    event.preventDefault();
  };
  const count = shown.length === 0 ? "No matches" : counted(shown.length, "result");
  return (
    <Modal.Root
      opened
      onClose={() => onClose()}
      returnFocus={false}
      yOffset="12vh"
      size={620}
      padding={0}
      transitionProps={{ duration: 0 }}
    >
      <Modal.Overlay />
      <Modal.Content aria-label="Command palette">
        <div className={css.box}>
          <Search size={18} aria-hidden="true" />
          <input
            className={css.input}
            role="combobox"
            aria-label="Search pages, runs, tabs and commands"
            aria-expanded="true"
            aria-controls={`${id}-list`}
            aria-activedescendant={shown.length > 0 ? `${id}-${at}` : undefined}
            aria-autocomplete="list"
            placeholder="Search pages, runs, tabs and commands"
            autoComplete="off"
            spellCheck={false}
            data-autofocus
            data-palette
            value={typed}
            onKeyDown={press}
            onChange={(event) => {
              onType(event.currentTarget.value);
              setActive(0);
              setAnnouncement("");
            }}
          />
        </div>
        <div className={css.list} id={`${id}-list`} role="listbox" aria-label="Results">
          {sections(shown).map(({ heading, rows }) => (
            <div key={heading} role={heading ? "group" : "presentation"} aria-label={heading || undefined}>
              {heading && (
                <div className={css.heading} aria-hidden="true">
                  {heading}
                </div>
              )}
              {rows.map(({ one, place }) => (
                <Option
                  key={one.command.id}
                  shown={one}
                  id={`${id}-${place}`}
                  isActive={place === at}
                  isTyped={heading === ""}
                  onHover={() => place !== at && setActive(place)}
                  onPick={() => pick(one.command)}
                />
              ))}
            </div>
          ))}
        </div>
        {shown.length === 0 && <p className={css.nothing}>{isLooking ? "Searching runs…" : `No matches for “${visible(typed)}”.`}</p>}
        <div className={css.foot}>
          <span role="status">{announcement || count}</span>
          <span className="spacer" />
          <span className="wide-only">
            <Kbd size="xs">↑</Kbd> <Kbd size="xs">↓</Kbd> select · <Kbd size="xs">Enter</Kbd> open · <Kbd size="xs">Esc</Kbd> close
          </span>
        </div>
      </Modal.Content>
    </Modal.Root>
  );
}
