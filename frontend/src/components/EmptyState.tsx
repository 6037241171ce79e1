import type { ReactNode } from "react";
import type { Needs } from "@/components/commandToken";
import { TokenCommand } from "@/components/TokenCommand";

type Props = {
  title: string;
  children: ReactNode;
  /** What to type, exactly, to get something to see here. */
  command?: string;
  /** The token that the command asks for. */
  needs?: Needs;
  action?: ReactNode;
};

/** Nothing here yet: what would be here, and how to get it. */
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
