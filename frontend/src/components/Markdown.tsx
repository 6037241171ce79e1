/** Untrusted Markdown, with formulas. */

import { Typography } from "@mantine/core";
import { type ComponentProps, useEffect, useState } from "react";
import ReactMarkdown, { type Options } from "react-markdown";
import remarkGfm from "remark-gfm";
import { visible } from "@/format";
import css from "./markdown.module.css";

/** Code, where nothing is a formula, and formulas of at most 2,000 characters in the delimiters of TeX. */
const PIECES =
  /(```[\s\S]*?(?:```|$)|~~~[\s\S]*?(?:~~~|$)|`[^`\n]*`)|\\\[([\s\S]{1,2000}?)\\\]|\\\(([\s\S]{1,2000}?)\\\)|\$\$([\s\S]{1,2000}?)\$\$|(?<![\\$\w])\$(?![\s$])([^$\n]*?[^\s\\$])\$(?![\d$])/g;

/** Whether a text may have formulas, which take a library to draw. */
export const mayHaveMath = (text: string): boolean => /\$[^$]+\$|\\\(|\\\[/.test(text);

/**
 * Write all formulas of a text in `$$`, as remark-math reads them: a block on lines of its own.
 *
 * A single dollar begins a formula as in Pandoc: no space after the first and before the second, and no digit behind it, so
 * that prices stay text.
 */
export function withMath(text: string): string {
  return text.replace(PIECES, (whole, code, bracketed, parenthesised, block, inline) => {
    if (code !== undefined) return whole;
    const displayed = bracketed ?? block;
    if (displayed !== undefined) return `\n$$\n${displayed.trim()}\n$$\n`;
    return `$$${(parenthesised ?? inline).trim()}$$`;
  });
}

/** External images are never loaded: shown as their alt text with a link. */
function Picture({ src, alt }: ComponentProps<"img">) {
  return <Outward href={typeof src === "string" ? src : undefined}>{alt || "picture"}</Outward>;
}

/** Only links to web pages and within the dashboard work. */
function Outward({ href, children }: ComponentProps<"a">) {
  if (href && /^https?:\/\//i.test(href)) {
    return (
      <a href={href} rel="noreferrer noopener" target="_blank">
        {children}
      </a>
    );
  }
  if (href?.startsWith("#") || /^\/(?!\/)/.test(href ?? "")) return <a href={href}>{children}</a>;
  return <span>{children}</span>;
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
const PARTS = { img: Picture, a: Outward, input: Ticked, h1: "h3", h2: "h4", h3: "h5", h4: "h6" } as const;
const FOREIGN = { ...PARTS, a: Foreign } as const;

/** A link in a text that a model wrote: none within the dashboard. */
function Foreign({ href, children }: ComponentProps<"a">) {
  return <Outward href={href && /^https?:\/\//i.test(href) ? href : undefined}>{children}</Outward>;
}

type Plugins = Pick<Options, "remarkPlugins" | "rehypePlugins">;

const PLAIN: Plugins = { remarkPlugins: [remarkGfm] };

/** The plugins for a text; those for formulas are loaded once a text has some. */
function usePlugins(hasMath: boolean): Plugins {
  const [plugins, setPlugins] = useState(PLAIN);
  useEffect(() => {
    if (!hasMath) return;
    let isShown = true;
    const found = Promise.all([import("remark-math"), import("rehype-katex")]);
    void found.then(([math, katex]) => {
      if (!isShown) return;
      setPlugins({
        remarkPlugins: [remarkGfm, [math.default, { singleDollarTextMath: false }]],
        // MathML needs no style sheet and no fonts.
        rehypePlugins: [[katex.default, { output: "mathml", maxExpand: 100, maxSize: 20 }]],
      });
    });
    return () => {
      isShown = false;
    };
  }, [hasMath]);
  return plugins;
}

type Props = {
  text: string;
  /** Written by a model or environment: with formulas, without links into the dashboard, and of any height. */
  isForeign?: boolean;
};

/** Render untrusted Markdown without HTML, scripts or external images. */
export default function Markdown({ text, isForeign = false }: Props) {
  const hasMath = isForeign && mayHaveMath(text);
  const plugins = usePlugins(hasMath);
  const shown = visible(text);
  return (
    <Typography fz="md" maw="78ch" mah={isForeign ? undefined : "26rem"} className={css.markdown} data-markdown>
      <ReactMarkdown {...plugins} components={isForeign ? FOREIGN : PARTS}>
        {hasMath ? withMath(shown) : shown}
      </ReactMarkdown>
    </Typography>
  );
}
