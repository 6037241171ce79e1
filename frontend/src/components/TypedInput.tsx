import { TextInput, type TextInputProps } from "@mantine/core";
import { useEffect, useRef, useState } from "react";

const TYPING_MS = 300;

type Props = Omit<TextInputProps, "value" | "onChange"> & { value: string; onTyped: (text: string) => void };

/** A text field that reports its value once typing pauses for 300 ms. */
export function TypedInput({ value, onTyped, ...field }: Props) {
  const [typed, setTyped] = useState(value);
  const report = useRef(onTyped);
  report.current = onTyped;
  useEffect(() => setTyped(value), [value]);
  useEffect(() => {
    if (typed === value) return;
    const timer = window.setTimeout(() => report.current(typed), TYPING_MS);
    return () => window.clearTimeout(timer);
  }, [typed, value]);
  return <TextInput {...field} value={typed} onChange={(event) => setTyped(event.currentTarget.value)} />;
}
