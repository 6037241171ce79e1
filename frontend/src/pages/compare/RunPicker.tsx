import { Select } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { Plus } from "lucide-react";
import { useState } from "react";
import { matchingRunsQuery } from "@/api/compare";
import { ApiProblem } from "@/api/problems";
import { visible } from "@/format";
import { RUNS_AT_MOST } from "@/runs/search";
import css from "./compare.module.css";

type Props = { chosen: string[]; onAdd: (run: string) => void };

const TYPING_MS = 200;

/** Search for a run by name or filter, and add it to the comparison. */
export function RunPicker({ chosen, onAdd }: Props) {
  const [typed, setTyped] = useState("");
  const [asked] = useDebouncedValue(typed.trim(), TYPING_MS);
  const found = useQuery(matchingRunsQuery(asked));
  const problem = found.error instanceof ApiProblem ? (found.error.fields[0]?.message ?? found.error.message) : undefined;
  const names = (found.data ?? []).filter((run) => !run.archived_at && !chosen.includes(run.name));
  const isFull = chosen.length >= RUNS_AT_MOST;
  return (
    <Select
      className={css.picker}
      size="xs"
      aria-label="Add a run"
      data-filter
      placeholder={isFull ? `At most ${RUNS_AT_MOST} runs` : "Add a run: name, tag:…, state:running …"}
      leftSection={<Plus size={14} aria-hidden="true" />}
      disabled={isFull}
      searchable
      value={null}
      searchValue={typed}
      onSearchChange={setTyped}
      data={names.map(({ name }) => name)}
      // Filtered by the server already, on more than names.
      filter={({ options }) => options}
      renderOption={({ option }) => {
        const run = names.find(({ name }) => name === option.value);
        return (
          <span className={css.option}>
            <span className="anywhere">{option.value}</span>
            <span className="faint tiny">{run?.status}</span>
          </span>
        );
      }}
      nothingFoundMessage={found.isPending ? "Searching…" : "No other matching runs."}
      maxDropdownHeight={320}
      error={problem && visible(problem)}
      onChange={(name) => {
        if (name) onAdd(name);
        setTyped("");
      }}
    />
  );
}
