import { Combobox, TextInput, useCombobox } from "@mantine/core";
import { type UseQueryOptions, useQuery } from "@tanstack/react-query";
import { Search } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import type { ApiProblem } from "@/api/problems";
import { askedAt, offers, type Qualifier, taken, type ValueRow } from "@/components/filter/suggest";
import { visible } from "@/format";
import css from "./filter.module.css";

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

/** The filter input with completions and error messages. */
export function FilterBox({ language, label, placeholder, value, onChange, problem }: Props) {
  const [text, setText] = useState(value);
  const [cursor, setCursor] = useState(value.length);
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
  return (
    <Combobox store={combobox} onOptionSubmit={take} position="bottom-start" width="min(480px, calc(100vw - 2rem))" shadow="md">
      <Combobox.Target withExpandedAttribute>
        <TextInput
          ref={input}
          data-filter
          role="combobox"
          className={css.filter}
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
          onBlur={() => combobox.closeDropdown()}
          onKeyDown={(event) => {
            if (event.key === "Enter" && combobox.getSelectedOptionIndex() < 0) {
              combobox.closeDropdown();
              onChange(text.trim());
            }
            if (event.key === "Escape" && !combobox.dropdownOpened) event.currentTarget.blur();
          }}
        />
      </Combobox.Target>
      <Combobox.Dropdown hidden={list.length === 0}>
        <Combobox.Options mah={300} aria-label="Completions" className={css.offers}>
          {list.map((offer) => (
            <Combobox.Option key={offer.label} value={offer.label}>
              <span className="mono">{visible(offer.label)}</span> <span className="faint tiny">{offer.note}</span>
            </Combobox.Option>
          ))}
        </Combobox.Options>
      </Combobox.Dropdown>
    </Combobox>
  );
}
