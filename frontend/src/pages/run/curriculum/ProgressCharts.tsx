import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import type { LessonProgress, LessonRow } from "@/api/types";
import { Chart } from "@/charts/Chart";
import type { Line } from "@/charts/model";
import { ErrorState } from "@/components/ErrorState";
import { Panel } from "@/components/Panel";
import { count } from "@/format";
import { lessonProgressQuery } from "@/pages/run/curriculum/api";
import { linedOf, type ProgressLine, progressColumns } from "@/pages/run/curriculum/progress";

const CHART_HEIGHT = 200;
const WAITING = "No samples yet. Data starts with the first version.";

function styled(lines: ProgressLine[], pick: "share" | "success"): Line[] {
  return lines.map((line, i) => ({ label: line.lesson, values: line[pick], role: (i + 1) as Line["role"], dashed: i % 2 === 1 }));
}

/** The scope of the figures: bucket width, window, and omitted lessons. */
function scopeOf({ bucket, epoch, outcomes, is_whole, results }: LessonProgress, lines: number): string {
  const points = bucket > 1 ? `${count(bucket)} versions per point` : "by version";
  const parts = [points, epoch > 1 ? `epoch ${epoch}` : "", is_whole ? "" : `newest ${count(outcomes)} tasks`];
  const left = lines < results.length ? `${lines} of ${count(results.length)} lessons` : "";
  return [...parts, left].filter(Boolean).join(", ");
}

type Props = { run: string; revision: number; lessons: LessonRow[]; opened: string | undefined };

/** Sample share and success of each lesson, by version. */
export function ProgressCharts({ run, revision, lessons, opened }: Props) {
  const { data, error } = useQuery(lessonProgressQuery(run, revision));
  const { x, lines } = useMemo(
    () => (data ? progressColumns(data, linedOf(lessons, data, opened)) : { x: [], lines: [] }),
    [data, lessons, opened],
  );
  if (error) {
    return (
      <Panel title="Training" className="span-12">
        <ErrorState title="Training progress unavailable" error={error} />
      </Panel>
    );
  }
  const scope = data ? scopeOf(data, lines.length) : "";
  const common = { x, isTime: false, xLabel: "version", height: CHART_HEIGHT, floor: 0, sync: "lessons", empty: WAITING };
  return (
    <>
      <Panel title="Share of samples" note={`% of episodes, ${scope}`} className="span-6">
        <Chart {...common} name="Share of samples by lesson, in percent" lines={styled(lines, "share")} />
      </Panel>
      <Panel title="Training success" note={`% of the lesson's episodes, ${scope}`} className="span-6">
        <Chart {...common} name="Success of each lesson in training, in percent" lines={styled(lines, "success")} />
      </Panel>
    </>
  );
}
