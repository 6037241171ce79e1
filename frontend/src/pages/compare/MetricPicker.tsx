import { MultiSelect } from "@mantine/core";
import { number, visible } from "@/format";
import css from "./compare.module.css";
import type { Shared } from "./comparing";
import { METRICS_AT_MOST } from "./search";

type Props = {
  /** Names that at least one run has. */
  union: Shared[];
  runs: number;
  chosen: string[];
  /** Not all names were loaded; typing searches the rest. */
  areMore: boolean;
  typed: string;
  onType: (text: string) => void;
  onChange: (names: string[]) => void;
};

const SHOWN_AT_MOST = 100;

/** Select metrics from those of all runs, with the number of runs that have each. */
export function MetricPicker({ union, runs, chosen, areMore, typed, onType, onChange }: Props) {
  const owners = new Map(union.map((one) => [one.name, one.runs.length]));
  const names = [...new Set([...union.map(({ name }) => name), ...chosen])];
  return (
    <MultiSelect
      className={css.metrics}
      size="xs"
      label="Metrics"
      description={areMore ? "Too many names to list: type part of a name." : undefined}
      placeholder={chosen.length === 0 ? "loss, reward …" : "Add a metric"}
      searchable
      clearable
      clearButtonProps={{ "aria-label": "Reset to the default metrics" }}
      hidePickedOptions
      maxValues={METRICS_AT_MOST}
      limit={SHOWN_AT_MOST}
      maxDropdownHeight={320}
      data={names}
      value={chosen}
      searchValue={typed}
      onSearchChange={onType}
      renderOption={({ option }) => (
        <span className={css.option}>
          <span className="anywhere">{visible(option.value)}</span>
          <span className="faint tiny nowrap">
            {owners.get(option.value) === runs ? "all runs" : `${number(owners.get(option.value) ?? 0)} of ${number(runs)}`}
          </span>
        </span>
      )}
      nothingFoundMessage="No run has a matching metric."
      onChange={onChange}
    />
  );
}
