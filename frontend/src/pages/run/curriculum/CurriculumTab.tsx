import "@/pages/run/curriculum/lessons.css";
import { useRun } from "@/pages/run/RunContext";
import { Lessons } from "@/pages/run/curriculum/Lessons";

/** Where each lesson is, and why. */
export function CurriculumTab() {
  const { run, curriculum } = useRun();
  return (
    <div className="charts">
      <Lessons run={run} curriculum={curriculum} />
    </div>
  );
}
