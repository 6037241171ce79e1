import type { ReactNode } from "react";
import type { Needs } from "@/components/commandToken";
import { TokenCommand } from "@/components/TokenCommand";
import { addressOfGuide, type GuidePage } from "@/guide";

type Fill =
  | {
      /** The exact command that produces data for this view. */
      command: string;
      /** The token that the command needs. */
      needs?: Needs;
      action?: ReactNode;
    }
  | {
      command?: undefined;
      /** Where no command produces data: the control that leads on. */
      action: Exclude<ReactNode, undefined | null>;
    };

type Props = Fill & {
  title: string;
  children: ReactNode;
  /** The page of the guide that describes the subject. */
  guide?: GuidePage;
};

/** Placeholder for an empty view: what it shows, and the command or action that fills it. */
export function EmptyState({ title, children, action, guide, ...fill }: Props) {
  return (
    <div className="empty">
      <h2>{title}</h2>
      <p>{children}</p>
      {fill.command && <TokenCommand {...fill} />}
      {action && <div className="empty-action">{action}</div>}
      {guide && <a href={addressOfGuide(guide)}>Read more in the guide</a>}
    </div>
  );
}
