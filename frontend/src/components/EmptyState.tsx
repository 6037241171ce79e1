import type { ReactNode } from "react";
import { Command } from "@/components/Copying";

type Props = {
  title: string;
  children: ReactNode;
  /** What to type, exactly, to get something to see here. */
  command?: string;
  action?: ReactNode;
};

/** Nothing here yet: what would be here, and how to get it. */
export function EmptyState({ title, children, command, action }: Props) {
  return (
    <div className="empty">
      <h2>{title}</h2>
      <p>{children}</p>
      {command && <Command text={command} />}
      {action && <div style={{ marginTop: "1.1rem" }}>{action}</div>}
    </div>
  );
}
