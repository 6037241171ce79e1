import type { ReactNode } from "react";
import { Boundary } from "@/components/Boundary";

type Props = {
  title: string;
  note?: ReactNode;
  aside?: ReactNode;
  className?: string;
  target?: string;
  children: ReactNode;
};

/** A titled section of a page, labelled for heading navigation. */
export function Panel({ title, note, aside, className = "", target, children }: Props) {
  return (
    <section className={`panel ${className}`} aria-label={title} data-target={target}>
      <div className="panel-head">
        <h2>{title}</h2>
        {note && <span className="note">{note}</span>}
        <span className="spacer" />
        {aside}
      </div>
      <div className="panel-body">
        <Boundary part="Panel">{children}</Boundary>
      </div>
    </section>
  );
}
