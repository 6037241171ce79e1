import { TextInput, useCombobox } from "@mantine/core";
import { type UseQueryOptions, useQuery } from "@tanstack/react-query";
import { Search } from "lucide-react";
import { useEffect, useLayoutEffect, useRef, useState } from "react";
import { flushSync } from "react-dom";
import type { ApiProblem } from "@/api/client";
import { askedAt, offers, type Qualifier, taken, type ValueRow } from "@/components/filter/suggest";
import { onDemand } from "@/components/onDemand";
import { visible } from "@/format";

/** A filter language of the server. */
export type Language = {
  qualifiers: Qualifier[];
  /** Qualifiers whose values the server completes. */
  valuesOf: readonly string[];
  // biome-ignore lint/suspicious/noExplicitAny: each query has a key of its own
  values: (of: string, part: string) => UseQueryOptions<ValueRow[], Error, ValueRow[], any>;
};

type Props = {
  language: Language;
  /** Accessible name. */
  label: string;
  placeholder: string;
  value: string;
  onChange: (q: string) => void;
  problem: ApiProblem | null;
};

const TYPING_MS = 200;
const Completions = onDemand(() => import("@/components/filter/Completions"), "Completions");

/** The filter input with error messages, and with completions, whose code is loaded when the input is first used. */
export function FilterBox({ language, label, placeholder, value, onChange, problem }: Props) {
  const [text, setText] = useState(value);
  const [cursor, setCursor] = useState(value.length);
  const [isCompleting, setCompleting] = useState(false);
  const selection = useRef<[number | null, number | null]>([null, null]);
  const input = useRef<HTMLInputElement>(null);
  const combobox = useCombobox();
  const { qualifiers, valuesOf } = language;
  const asked = askedAt(text, cursor, qualifiers);
  const wanted = valuesOf.find((name) => name === asked.qualifier?.name);
  const values = useQuery({ ...language.values(wanted ?? "env", asked.part), enabled: wanted !== undefined });
  const list = offers(asked, qualifiers, wanted ? (values.data ?? []) : []);

  // The URL may change from elsewhere, such as the back button.
  useEffect(() => setText((shown) => (shown.trim() === value ? shown : value)), [value]);
  const tell = useRef(onChange);
  tell.current = onChange;
  useEffect(() => {
    if (text.trim() === value) return;
    const timer = setTimeout(() => tell.current(text.trim()), TYPING_MS);
    return () => clearTimeout(timer);
  }, [text, value]);

  const take = (label: string) => {
    const offer = list.find((each) => each.label === label);
    if (!offer) return;
    const next = taken(text, asked, offer);
    setText(next.text);
    setCursor(next.cursor);
    requestAnimationFrame(() => input.current?.setSelectionRange(next.cursor, next.cursor));
    combobox.resetSelectedOption();
  };
  const complete = async () => {
    await Completions.preload();
    // Elsewhere by now: the next use has completions. Something may give the focus back to this element.
    if (!input.current || document.activeElement !== input.current) return;
    selection.current = [input.current.selectionStart, input.current.selectionEnd];
    // At once: a key between would move the cursor.
    flushSync(() => setCompleting(true));
  };
  useLayoutEffect(() => {
    // The input with completions is another element.
    if (!isCompleting) return;
    input.current?.focus();
    input.current?.setSelectionRange(...selection.current);
  }, [isCompleting]);
  const field = (
    <TextInput
      ref={input}
      data-filter
      role="combobox"
      aria-expanded={false}
      flex="1 1 22rem"
      miw={0}
      maw="46rem"
      ff="monospace"
      leftSection={<Search size={15} aria-hidden="true" />}
      aria-label={label}
      placeholder={placeholder}
      value={text}
      spellCheck={false}
      autoComplete="off"
      error={problem ? visible(problem.fields[0]?.message ?? problem.message) : undefined}
      onChange={(event) => {
        setText(event.currentTarget.value);
        setCursor(event.currentTarget.selectionStart ?? event.currentTarget.value.length);
        combobox.openDropdown();
        combobox.resetSelectedOption();
      }}
      onSelect={(event) => setCursor(event.currentTarget.selectionStart ?? 0)}
      onClick={() => combobox.openDropdown()}
      onPointerEnter={Completions.preload}
      onFocus={complete}
      onBlur={() => combobox.closeDropdown()}
      onKeyDown={(event) => {
        if (event.key === "Enter" && combobox.getSelectedOptionIndex() < 0) {
          combobox.closeDropdown();
          onChange(text.trim());
        }
        if (event.key === "Escape" && !combobox.dropdownOpened) event.currentTarget.blur();
      }}
    />
  );
  return isCompleting ? <Completions store={combobox} field={field} list={list} onTake={take} /> : field;
}
