import type { ReactNode } from "react";
import type { Needs } from "@/components/commandToken";
import { TokenCommand } from "@/components/TokenCommand";

type Props = {
  title: string;
  children: ReactNode;
  /** The exact command that produces data for this view. */
  command?: string;
  /** The token that the command needs. */
  needs?: Needs;
  action?: ReactNode;
};

/** Placeholder for an empty view: what it shows, and how to get data. */
export function EmptyState({ title, children, command, needs, action }: Props) {
  return (
    <div className="empty">
      <h2>{title}</h2>
      <p>{children}</p>
      {command && <TokenCommand command={command} needs={needs} />}
      {action && <div className="empty-action">{action}</div>}
    </div>
  );
}
