import { TextInput, type TextInputProps } from "@mantine/core";
import { useEffect, useRef, useState } from "react";

const TYPING_MS = 300;

type Props = Omit<TextInputProps, "value" | "onChange"> & {
  value: string;
  onTyped: (text: string) => void;
  /** The problem of a text, which is shown and not reported; undefined if it is valid. */
  check?: (text: string) => string | undefined;
};

/** A text field that reports its value once typing pauses for 300 ms. */
export function TypedInput({ value, onTyped, check, ...field }: Props) {
  const [typed, setTyped] = useState(value);
  const report = useRef(onTyped);
  report.current = onTyped;
  const problem = check?.(typed);
  useEffect(() => setTyped(value), [value]);
  useEffect(() => {
    if (typed === value || problem) return;
    const timer = window.setTimeout(() => report.current(typed), TYPING_MS);
    return () => window.clearTimeout(timer);
  }, [typed, value, problem]);
  return <TextInput {...field} error={problem ?? field.error} value={typed} onChange={(event) => setTyped(event.currentTarget.value)} />;
}
