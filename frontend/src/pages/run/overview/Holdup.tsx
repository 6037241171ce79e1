import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { pipelineQuery } from "@/api/pipeline";
import type { RunDetail } from "@/api/types";
import { visible } from "@/format";
import classes from "./overview.module.css";

const EVERY_MS = 10_000;
const UNDER_WAY = new Set<RunDetail["status"]>(["starting", "running", "paused", "draining"]);

/** The one sentence that says what holds the run up; all that proves it is a click away. */
export function Holdup({ run }: { run: RunDetail }) {
  const isUnderWay = UNDER_WAY.has(run.status);
  const { data, isError } = useQuery({ ...pipelineQuery(run.name), enabled: isUnderWay, refetchInterval: EVERY_MS });
  if (!isUnderWay || (isError && !data)) return null;
  return (
    <section className={`panel span-12 ${classes.holdup}`} aria-label="Verdict" data-stage={data?.verdict.stage ?? "none"}>
      {data ? (
        <>
          <p>
            <b>{visible(data.verdict.sentence)}</b> <span className="soft small">{visible(data.verdict.change)}</span>
          </p>
          <Link to="/runs/$name/pipeline" params={{ name: run.name }} className="small nowrap">Why</Link>
        </>
      ) : (
        <p className="faint">Looking at how data flows…</p>
      )}
    </section>
  );
}
