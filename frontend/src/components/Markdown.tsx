import type { ComponentProps } from "react";
import ReactMarkdown from "react-markdown";
import remarkGfm from "remark-gfm";
import { visible } from "@/format";
import css from "./notes.module.css";

/** External images are never loaded: shown as their alt text with a link. */
function Picture({ src, alt }: ComponentProps<"img">) {
  return (
    <a href={typeof src === "string" ? src : undefined} rel="noreferrer noopener" target="_blank">
      {alt || "picture"}
    </a>
  );
}

function Outward({ href, children }: ComponentProps<"a">) {
  const isHere = href?.startsWith("/") || href?.startsWith("#");
  return (
    <a href={href || undefined} {...(isHere ? {} : { rel: "noreferrer noopener", target: "_blank" })}>
      {children}
    </a>
  );
}

/** A checkbox of a task list; changed by editing the text. */
function Ticked({ checked }: ComponentProps<"input">) {
  return (
    <span role="img" aria-label={checked ? "done" : "to do"}>
      {checked ? "☑" : "☐"}
    </span>
  );
}

/** Headings of user text start two levels below the page's. */
const PARTS = { img: Picture, a: Outward, input: Ticked, h1: "h3", h2: "h4", h3: "h5" } as const;

/** Render user Markdown without HTML, scripts or external images. */
export default function Markdown({ text }: { text: string }) {
  return (
    <div className={css.markdown} data-markdown>
      <ReactMarkdown remarkPlugins={[remarkGfm]} components={PARTS}>
        {visible(text)}
      </ReactMarkdown>
    </div>
  );
}
