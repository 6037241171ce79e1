import { Slider, Text } from "@mantine/core";
import { useEffect, useState } from "react";

const STEP = 0.01;
/** Weight from which older samples would outweigh all visible ones. */
export const MOST_SMOOTHING = 0.99;

type Props = {
  /** Weight of the moving average, 0 for none. */
  value: number;
  onChange: (weight: number) => void;
};

/** The weight of the exponential moving average of all charts of a page. */
export function Smoothing({ value, onChange }: Props) {
  const [shown, setShown] = useState(value);
  useEffect(() => setShown(value), [value]);
  return (
    <div className="chart-smoothing">
      <Text size="xs">Smoothing {shown > 0 ? shown : "off"}</Text>
      <Slider
        size="sm"
        min={0}
        max={MOST_SMOOTHING}
        step={STEP}
        label={null}
        thumbLabel="Smoothing"
        value={shown}
        onChange={setShown}
        onChangeEnd={onChange}
      />
    </div>
  );
}
