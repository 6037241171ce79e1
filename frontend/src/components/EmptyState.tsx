import type { ReactNode } from "react";
import type { Needs } from "@/components/commandToken";
import { TokenCommand } from "@/components/TokenCommand";
import { addressOfGuide, type GuidePage } from "@/guide";

type Props = {
  title: string;
  children: ReactNode;
  /** The exact command that produces data for this view. */
  command?: string;
  /** The token that the command needs. */
  needs?: Needs;
  action?: ReactNode;
  /** The page of the guide that describes the subject. */
  guide?: GuidePage;
};

/** Placeholder for an empty view: what it shows, and how to get data. */
export function EmptyState({ title, children, command, needs, action, guide }: Props) {
  return (
    <div className="empty">
      <h2>{title}</h2>
      <p>{children}</p>
      {command && <TokenCommand command={command} needs={needs} />}
      {action && <div className="empty-action">{action}</div>}
      {guide && <a href={addressOfGuide(guide)}>Read more in the guide</a>}
    </div>
  );
}
