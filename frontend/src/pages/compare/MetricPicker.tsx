import { MultiSelect } from "@mantine/core";
import { number, visible } from "@/format";
import { PANELS_AT_MOST } from "@/wall/panels";
import css from "./compare.module.css";
import type { Shared } from "./comparing";

type Props = {
  /** Names that at least one run has. */
  union: Shared[];
  runs: number;
  chosen: string[];
  onChange: (names: string[]) => void;
};

const SHOWN_AT_MOST = 100;

/** Select metrics from those of all runs, with the number of runs that have each. */
export function MetricPicker({ union, runs, chosen, onChange }: Props) {
  const owners = new Map(union.map((one) => [one.name, one.runs.length]));
  const names = [...new Set([...union.map(({ name }) => name), ...chosen])];
  return (
    <MultiSelect
      className={css.metrics}
      size="xs"
      label="Metrics"
      placeholder={chosen.length === 0 ? "loss, reward …" : "Add a metric"}
      searchable
      clearable
      clearButtonProps={{ "aria-label": "Reset to the default metrics" }}
      hidePickedOptions
      maxValues={PANELS_AT_MOST}
      limit={SHOWN_AT_MOST}
      maxDropdownHeight={320}
      data={names}
      value={chosen}
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
