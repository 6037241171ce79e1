import { NativeSelect, Select } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { matchingRunsQuery } from "@/api/compare";
import css from "@/pages/run/evaluations/evaluations.module.css";

const TYPING_MS = 200;

type Props = {
  run: string;
  ks: number[];
  k: number;
  baseline: string | undefined;
  onK: (k: number) => void;
  onBaseline: (run: string) => void;
};

/** Select the metric of the cells and the baseline run. */
export function MatrixControls({ run, ks, k, baseline, onK, onBaseline }: Props) {
  const [typed, setTyped] = useState("");
  const [asked] = useDebouncedValue(typed.trim() === baseline ? "" : typed.trim(), TYPING_MS);
  const found = useQuery(matchingRunsQuery(`kind:language ${asked}`.trim()));
  const names = (found.data ?? []).map(({ name }) => name).filter((name) => name !== run);
  const isSingle = ks.length === 1;
  return (
    <div className={css.controls}>
      <NativeSelect
        size="xs"
        label="Metric"
        description={
          isSingle ? "pass@k for k > 1 requires evaluation.generations > 1." : "Probability that at least one of k answers is correct."
        }
        value={String(k)}
        data={ks.map((each) => ({ value: String(each), label: each === 1 ? "success (pass@1)" : `pass@${each}` }))}
        disabled={isSingle}
        onChange={(event) => onK(Number(event.currentTarget.value))}
      />
      <Select
        size="xs"
        label="Baseline"
        description="Another run, at the same step or the last one before it."
        placeholder="none"
        searchable
        value={baseline ?? null}
        onSearchChange={setTyped}
        data={baseline && !names.includes(baseline) ? [baseline, ...names] : names}
        filter={({ options }) => options}
        nothingFoundMessage={found.isPending ? "Searching…" : "No matching language runs."}
        onChange={(name) => name && onBaseline(name)}
      />
    </div>
  );
}
