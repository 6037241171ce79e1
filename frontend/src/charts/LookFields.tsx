import { Checkbox, NumberInput } from "@mantine/core";
import type { ChartLook } from "@/charts/look";

type Props = {
  look: ChartLook;
  change: (more: ChartLook) => void;
  /** Whether the x axis can be logarithmic: not that of dates. */
  hasLogX: boolean;
};

/** The axes of an enlarged chart. */
export function LookFields({ look, change, hasLogX }: Props) {
  const end = (key: "low" | "high", label: string) => (
    <NumberInput
      size="xs"
      w="8rem"
      label={label}
      placeholder="automatic"
      hideControls
      value={look[key] ?? ""}
      onChange={(value) => change({ [key]: typeof value === "number" ? value : undefined })}
    />
  );
  const flag = (key: "isClipped" | "isLog" | "isLogX", label: string) => (
    <Checkbox size="xs" label={label} checked={look[key] ?? false} onChange={(event) => change({ [key]: event.currentTarget.checked })} />
  );
  return (
    <div className="chart-look">
      {end("low", "From")}
      {end("high", "To")}
      {flag("isClipped", "Without outliers")}
      {flag("isLog", "Log y axis")}
      {hasLogX && flag("isLogX", "Log x axis")}
    </div>
  );
}
