import type { ComponentProps } from "react";
import ReactMarkdown from "react-markdown";
import remarkGfm from "remark-gfm";
import { visible } from "@/format";
import css from "./notes.module.css";

/** Nothing is loaded from elsewhere because somebody wrote it down: a picture is its name and a link. */
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

/** A task of a list, which is ticked by editing the text. */
function Ticked({ checked }: ComponentProps<"input">) {
  return (
    <span role="img" aria-label={checked ? "done" : "to do"}>
      {checked ? "☑" : "☐"}
    </span>
  );
}

/** A heading of the page is above them all: what somebody wrote begins two below. */
const PARTS = { img: Picture, a: Outward, input: Ticked, h1: "h3", h2: "h4", h3: "h5" } as const;

/** Markdown of people: no HTML of theirs, no script, no picture from elsewhere. */
export default function Markdown({ text }: { text: string }) {
  return (
    <div className={css.markdown} data-markdown>
      <ReactMarkdown remarkPlugins={[remarkGfm]} components={PARTS}>
        {visible(text)}
      </ReactMarkdown>
    </div>
  );
}
