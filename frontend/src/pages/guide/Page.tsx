import { useComputedColorScheme } from "@mantine/core";
import { type ComponentProps, createContext, useContext } from "react";
import ReactMarkdown, { type ExtraProps } from "react-markdown";
import rehypeRaw from "rehype-raw";
import rehypeSlug from "rehype-slug";
import remarkGfm from "remark-gfm";
import { AppLink } from "@/components/AppLink";
import { urlOf } from "./docs";
import { anchorOf, entryOf } from "./glossary";
import css from "./guide.module.css";
import { addressOf, targetOf } from "./places";

/** The name of the shown page, from which its links lead. */
const PageContext = createContext("");

const API_FILE = "reference/openapi.json";
const API_PAGE = "/docs";

function Reference({ href = "", children }: ComponentProps<"a">) {
  const target = targetOf(useContext(PageContext), href);
  if (target.kind === "page") return <AppLink to={addressOf(target.page, target.hash)}>{children}</AppLink>;
  if (target.kind === "source") return <span title={`${target.path} in the repository`}>{children}</span>;
  if (target.kind === "file") return <a href={target.path === API_FILE ? API_PAGE : urlOf(target.path)}>{children}</a>;
  return (
    <a href={target.url} rel="noreferrer noopener" target="_blank">
      {children}
    </a>
  );
}

/** The URL of a picture on a page of the docs. */
function usePicture(src: unknown): string | undefined {
  const target = targetOf(useContext(PageContext), String(src));
  return target.kind === "file" ? urlOf(target.path) : undefined;
}

function Picture({ src, alt }: ComponentProps<"img">) {
  return <img src={usePicture(src)} alt={alt} loading="lazy" />;
}

/** The variant for the dark theme, by the theme of the dashboard instead of that of the system. */
function Variant({ srcSet }: ComponentProps<"source">) {
  const isDark = useComputedColorScheme("dark") === "dark";
  const url = usePicture(srcSet);
  return isDark ? <source srcSet={url} /> : null;
}

function Sheet({ children }: ComponentProps<"table">) {
  return (
    <div className="table-scroll" role="region" aria-label="Table" tabIndex={0}>
      <table>{children}</table>
    </div>
  );
}

/** A row; those of the glossary are link targets. */
function Row({ node, children }: ComponentProps<"tr"> & ExtraProps) {
  const isGlossary = useContext(PageContext) === "glossary";
  const cell = node?.children.find((child) => child.type === "element");
  const word = cell?.children[0]?.type === "text" ? cell.children[0].value.split(", ")[0] : undefined;
  return <tr id={isGlossary && word && entryOf(word) ? anchorOf(word) : undefined}>{children}</tr>;
}

const PARTS = {
  a: Reference,
  img: Picture,
  source: Variant,
  table: Sheet,
  tr: Row,
  pre: ({ children }: ComponentProps<"pre">) => <pre tabIndex={0}>{children}</pre>,
};

/** A page of the docs. Its HTML is rendered: it is part of the project. */
export function Page({ name, text }: { name: string; text: string }) {
  return (
    <PageContext value={name}>
      <article className={`panel ${css.article}`} data-guide={name}>
        <ReactMarkdown remarkPlugins={[remarkGfm]} rehypePlugins={[rehypeRaw, rehypeSlug]} components={PARTS}>
          {text}
        </ReactMarkdown>
      </article>
    </PageContext>
  );
}
