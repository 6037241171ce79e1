import type { ReactNode } from "react";
import { Termed } from "@/components/Term";

type Props = {
  title: string;
  /** The word of the title that the glossary explains. */
  term?: string;
  note?: ReactNode;
  aside?: ReactNode;
  className?: string;
  target?: string;
  children: ReactNode;
};

/** A titled section of a page, labelled for heading navigation. */
export function Panel({ title, term, note, aside, className = "", target, children }: Props) {
  return (
    <section className={`panel ${className}`} aria-label={title} data-target={target}>
      <div className="panel-head">
        <h2>
          <Termed text={title} term={term} />
        </h2>
        {note && <span className="note">{note}</span>}
        <span className="spacer" />
        {aside}
      </div>
      <div className="panel-body">{children}</div>
    </section>
  );
}
