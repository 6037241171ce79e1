import { Link } from "@tanstack/react-router";
import { Folder } from "lucide-react";
import { term } from "@/components/filter/suggest";
import { visible } from "@/format";
import css from "./projectTag.module.css";

/** The project of a run, linked to its runs. */
export function ProjectTag({ name }: { name: string }) {
  return (
    <Link to="/runs" search={{ q: term("project", name) }} className={`tag ${css.project}`} title={`Project ${visible(name)}`}>
      <Folder size={12} aria-hidden="true" />
      <span>{visible(name)}</span>
    </Link>
  );
}
