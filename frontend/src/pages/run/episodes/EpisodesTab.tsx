import "@/pages/run/episodes/episodes.css";
import { useRun } from "@/pages/run/RunContext";
import { EpisodeCharts } from "@/pages/run/episodes/EpisodeCharts";
import { EpisodePanel } from "@/pages/run/episodes/EpisodePanel";

/** What recent episodes came to, and each as it ended. */
export function EpisodesTab() {
  return (
    <div className="charts">
      <EpisodePanel run={useRun().run} />
      <EpisodeCharts />
    </div>
  );
}
