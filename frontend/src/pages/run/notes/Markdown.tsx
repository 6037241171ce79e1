import { Anchor } from "@mantine/core";
import type { ComponentProps } from "react";
import ReactMarkdown from "react-markdown";
import remarkGfm from "remark-gfm";
import { visible } from "@/format";
import css from "./notes.module.css";

/** Nothing is loaded from elsewhere because somebody wrote it down: a picture is its name and a link. */
function Picture({ src, alt }: ComponentProps<"img">) {
  return <Anchor href={typeof src === "string" ? src : undefined} inherit rel="noreferrer noopener" target="_blank">{alt || "picture"}</Anchor>;
}

function Outward({ href, children }: ComponentProps<"a">) {
  const isHere = href?.startsWith("/") || href?.startsWith("#");
  return <Anchor href={href || undefined} inherit {...(isHere ? {} : { rel: "noreferrer noopener", target: "_blank" })}>{children}</Anchor>;
}

/** A heading of the page is above them all: what somebody wrote begins two below. */
const PARTS = { img: Picture, a: Outward, h1: "h3", h2: "h4", h3: "h5" } as const;

/** Markdown of people: no HTML of theirs, no script, no picture from elsewhere. */
export default function Markdown({ text }: { text: string }) {
  return (
    <div className={css.markdown} data-markdown>
      <ReactMarkdown remarkPlugins={[remarkGfm]} components={PARTS}>{visible(text)}</ReactMarkdown>
    </div>
  );
}
