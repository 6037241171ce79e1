import { TextInput } from "@mantine/core";
import { useRef } from "react";
import { KeyHint } from "@/components/KeyHint";
import { visible } from "@/format";
import { matchesText, matching } from "@/forms/search";
import { focusInside } from "@/pages/launch/focusing";
import { NAME_FIELD } from "@/pages/launch/tiers";
import type { LaunchState } from "@/pages/launch/useLaunch";
import css from "./tiers.module.css";

/** Filters the fields of all tiers; Enter focuses the first, Escape clears. */
export function FieldSearch({ state, within }: { state: LaunchState; within: string }) {
  const { query, setQuery, tiers } = state;
  const input = useRef<HTMLInputElement>(null);
  const all = [NAME_FIELD, ...tiers.shown];
  const found = matching(all, query).length;
  const hidden = query ? matching(tiers.hidden, query) : [];
  return (
    <div className={css.search} role="search">
      <TextInput
        ref={input}
        aria-label="Search fields"
        placeholder="Search fields by title, path or description"
        aria-describedby="field-matches"
        data-filter
        type="search"
        autoComplete="off"
        value={query}
        rightSection={<KeyHint>/</KeyHint>}
        onChange={(event) => setQuery(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Escape" && query) {
            event.preventDefault();
            event.stopPropagation();
            setQuery("");
          } else if (event.key === "Enter") {
            // Enter in a search must not launch the run.
            event.preventDefault();
            focusInside(document.querySelector<HTMLElement>(`#${within} [data-field]`) ?? undefined);
          }
        }}
      />
      <p id="field-matches" className="small soft" role="status">
        {query && visible(matchesText(found, all.length, hidden))}
      </p>
    </div>
  );
}
