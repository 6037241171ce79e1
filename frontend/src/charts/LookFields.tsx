import { Checkbox, NumberInput, Select } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import type { ChartLook } from "@/charts/look";

const TYPING_MS = 250;
const OPTIONS_AT_MOST = 100;

type Props = {
  look: ChartLook;
  change: (more: ChartLook) => void;
  /** Whether the x axis can be logarithmic: not that of dates. */
  hasLogX: boolean;
  xLabel: string;
  /** Metrics that the x axis can be; absent if it has one axis only. */
  xChoices?: readonly string[];
};

/** The axes of an enlarged chart. */
export function LookFields({ look, change, hasLogX, xLabel, xChoices }: Props) {
  const changeEnds = useDebouncedCallback(change, TYPING_MS);
  const end = (key: "low" | "high", label: string) => (
    <NumberInput
      size="xs"
      w="8rem"
      label={label}
      placeholder="automatic"
      hideControls
      defaultValue={look[key] ?? ""}
      onChange={(value) => changeEnds({ [key]: typeof value === "number" ? value : undefined })}
    />
  );
  const flag = (key: "isClipped" | "isLog" | "isLogX", label: string) => (
    <Checkbox size="xs" label={label} checked={look[key] ?? false} onChange={(event) => change({ [key]: event.currentTarget.checked })} />
  );
  const choices = [...new Set([...(look.x ? [look.x] : []), ...(xChoices ?? [])])];
  return (
    <div className="chart-look">
      {end("low", "From")}
      {end("high", "To")}
      {xChoices && (
        <Select
          size="xs"
          label="X axis"
          placeholder={look.x ? undefined : xLabel}
          searchable
          clearable
          clearButtonProps={{ "aria-label": "Reset the x axis" }}
          limit={OPTIONS_AT_MOST}
          data={choices}
          value={look.x ?? null}
          nothingFoundMessage="No such metric."
          onChange={(x) => change({ x: x ?? undefined, isLogX: undefined })}
        />
      )}
      {flag("isClipped", "Without outliers")}
      {flag("isLog", "Log y axis")}
      {hasLogX && flag("isLogX", "Log x axis")}
    </div>
  );
}
