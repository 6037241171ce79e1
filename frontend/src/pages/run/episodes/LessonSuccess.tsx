import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { RunDetail } from "@/api/types";
import { term } from "@/components/filter/suggest";
import { Panel } from "@/components/Panel";
import { StateChip } from "@/components/StateChip";
import { Table } from "@/components/Table";
import { count, percent } from "@/format";
import { lessonsQuery } from "@/pages/run/curriculum/api";
import { useRun } from "@/pages/run/RunContext";

/** Success rate of each lesson, in training and in evaluation. */
export function LessonSuccess({ run }: { run: RunDetail }) {
  const { curriculum } = useRun();
  const { data } = useQuery({ ...lessonsQuery(run.name, curriculum?.revision ?? 0), enabled: run.kind === "language" });
  if (run.kind !== "language" || !data || data.results.length === 0) return null;
  return (
    <Panel
      title="Success by lesson"
      aside={
        <Link to="/runs/$name/curriculum" params={{ name: run.name }} className="small">
          Curriculum
        </Link>
      }
      className="span-12"
    >
      <Table
        label="Success by lesson"
        columns={[
          "Lesson",
          "State",
          { label: "Training", className: "num" },
          { label: "Evaluated", className: "num" },
          { label: "Episodes", className: "num" },
          { label: "Truncated", className: "num" },
        ]}
      >
        {data.results.map((row) => (
          <tr key={row.name} data-lesson={row.name}>
            <td className="anywhere">
              <Link to="/runs/$name/trajectories" params={{ name: run.name }} search={{ q: term("env", row.name) }}>
                {row.name}
              </Link>
            </td>
            <td>
              <StateChip state={row.status} since={row.changed_at} />
            </td>
            <td className="num" title="The value that the curriculum strategy uses">
              {percent(row.success)}
            </td>
            <td className="num">{row.evaluation?.figures ? percent(row.evaluation.figures.success.estimate) : "–"}</td>
            <td className="num">{count(row.samples)}</td>
            <td className="num">{percent(row.truncated_share)}</td>
          </tr>
        ))}
      </Table>
    </Panel>
  );
}
