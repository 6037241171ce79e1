import { getRouteApi } from "@tanstack/react-router";
import { useMemo } from "react";
import { Panels } from "@/components/Panels";
import { EpisodePanel } from "@/pages/run/episodes/EpisodePanel";
import { LessonSuccess } from "@/pages/run/episodes/LessonSuccess";
import { SpreadPanel } from "@/pages/run/episodes/SpreadPanel";
import { useRun } from "@/pages/run/RunContext";
import { RunWall } from "@/pages/run/RunWall";
import { presetsNamed } from "@/wall/presets";

const route = getRouteApi("/shell/runs/$name/episodes");

/** Statistics and distribution of episodes, and their return, length and number over time. */
export function EpisodesTab() {
  const { run } = useRun();
  const navigate = route.useNavigate();
  const panels = useMemo(() => presetsNamed(run.kind, "reward", "length", "throughput"), [run.kind]);
  return (
    <Panels>
      <EpisodePanel run={run} />
      <SpreadPanel run={run} />
      <LessonSuccess run={run} />
      <RunWall
        panels={panels}
        range={route.useSearch()}
        onRange={(range) => void navigate({ search: (old) => ({ ...old, ...range }), replace: true, resetScroll: false })}
        className="charts span-12"
      />
    </Panels>
  );
}
