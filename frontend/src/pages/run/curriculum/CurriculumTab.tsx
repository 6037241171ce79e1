import { useThrottledValue } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import type { CurriculumPart } from "@/api/types";
import { onDemand } from "@/components/onDemand";
import { Panels } from "@/components/Panels";
import { lessonsQuery } from "@/pages/run/curriculum/api";
import { LOOK_AT_MOST_EVERY_MS } from "@/pages/run/curriculum/curriculum";
import { Lessons } from "@/pages/run/curriculum/Lessons";
import { NoLessons } from "@/pages/run/curriculum/NoLessons";
import { ProgressCharts } from "@/pages/run/curriculum/ProgressCharts";
import { useRun } from "@/pages/run/RunContext";

const LessonDrawer = onDemand(() => import("@/pages/run/curriculum/LessonDrawer"), "default");

function Known({ curriculum }: { curriculum: CurriculumPart }) {
  const { run } = useRun();
  const { lesson: opened } = useSearch({ from: "/shell/runs/$name/curriculum" });
  const navigate = useNavigate({ from: "/runs/$name/curriculum" });
  const revision = useThrottledValue(curriculum.revision, LOOK_AT_MOST_EVERY_MS);
  const { data, error } = useQuery(lessonsQuery(run.name, revision));
  const lessons = data?.results ?? NOTHING;
  const open = lessons.find(({ name }) => name === opened);
  const show = (lesson: string | undefined) => void navigate({ search: { lesson }, replace: true });
  return (
    <Panels>
      <ProgressCharts run={run.name} revision={revision} lessons={lessons} opened={opened} />
      <Lessons curriculum={curriculum} lessons={data?.results} error={error} onOpen={show} />
      {open && <LessonDrawer run={run.name} lesson={open} revision={revision} onClose={() => show(undefined)} />}
    </Panels>
  );
}

const NOTHING: never[] = [];

/** The state and progress of each lesson. */
export function CurriculumTab() {
  const { run, curriculum } = useRun();
  if (curriculum) return <Known curriculum={curriculum} />;
  return (
    <Panels>
      <NoLessons run={run} isKnown={curriculum === null} />
    </Panels>
  );
}
