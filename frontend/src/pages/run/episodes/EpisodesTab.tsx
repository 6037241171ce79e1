import { Panels } from "@/components/Panels";
import { EpisodeCharts } from "@/pages/run/episodes/EpisodeCharts";
import { EpisodePanel } from "@/pages/run/episodes/EpisodePanel";
import { LessonSuccess } from "@/pages/run/episodes/LessonSuccess";
import { SpreadPanel } from "@/pages/run/episodes/SpreadPanel";
import { useRun } from "@/pages/run/RunContext";

/** Statistics and distribution of episodes, and each episode as it ends. */
export function EpisodesTab() {
  const { run } = useRun();
  return (
    <Panels>
      <EpisodePanel run={run} />
      <SpreadPanel run={run} />
      <LessonSuccess run={run} />
      <EpisodeCharts />
    </Panels>
  );
}
