import type { ReactNode } from "react";

type Props = { title: string; note?: ReactNode; aside?: ReactNode; className?: string; children: ReactNode };

/** One subject in a frame, named for those who jump by headings. */
export function Panel({ title, note, aside, className = "", children }: Props) {
  return (
    <section className={`panel ${className}`} aria-label={title}>
      <div className="panel-head">
        <h2>{title}</h2>
        {note && <span className="note">{note}</span>}
        <span className="spacer" />
        {aside}
      </div>
      <div className="panel-body">{children}</div>
    </section>
  );
}
