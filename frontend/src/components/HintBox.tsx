import { Tooltip } from "@mantine/core";
import { useWindowEvent } from "@mantine/hooks";
import type { ReactNode } from "react";

type Props = { id: string; target: HTMLElement; label: ReactNode; isOpen: boolean; onDismiss: () => void };

/** The box of a hint. */
export function HintBox({ id, target, label, isOpen, onDismiss }: Props) {
  useWindowEvent("keydown", ({ key }) => isOpen && key === "Escape" && onDismiss());
  return <Tooltip target={target} opened={isOpen} label={<div id={id}>{label}</div>} />;
}
