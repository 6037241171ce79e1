import type { ReactNode } from "react";
import type { Part } from "@/api/deployment";
import { Panel } from "@/components/Panel";
import { StateChip } from "@/components/StateChip";
import { visible } from "@/format";
import css from "./cluster.module.css";

/** Covers two polling intervals and a slow poll. */
const PROOF_SECONDS = 20;

type Fact = [term: string, value: ReactNode];
type Props = {
  title: string;
  part: Part;
  address?: string | null;
  facts: Fact[];
  proofSeconds?: number;
  className?: string;
  children?: ReactNode;
};

/** A backing service: state, last check and figures. */
export function PartPanel({ title, part, address, facts, proofSeconds = PROOF_SECONDS, className, children }: Props) {
  const isOld = part.state !== "up" && part.confirmed_at !== null;
  return (
    <Panel
      title={title}
      className={className}
      aside={<StateChip state={part.state} provenAt={part.confirmed_at} allowedSeconds={proofSeconds} reason={part.problem} />}
    >
      {part.problem && <p className={`small ${part.state === "absent" ? "soft" : "held"} ${css.problem}`}>{visible(part.problem)}</p>}
      {isOld && facts.length > 0 && <p className={`small faint ${css.problem}`}>Values of the last successful check:</p>}
      {facts.length > 0 && (part.state === "up" || isOld) && (
        <dl className={css.facts} data-old={isOld || undefined}>
          {facts.map(([term, value]) => (
            <div key={term}>
              <dt>{term}</dt>
              <dd>{value}</dd>
            </div>
          ))}
          {address && (
            <div className={css.where}>
              <dt>Address</dt>
              <dd className="mono small">{visible(address)}</dd>
            </div>
          )}
        </dl>
      )}
      {children}
    </Panel>
  );
}
