import "@/pages/run/episodes/episodes.css";
import { useRun } from "@/pages/run/RunContext";
import { EpisodePanel } from "@/pages/run/episodes/EpisodePanel";

/** What recent episodes came to. */
export function EpisodesTab() {
  return (
    <div className="charts">
      <EpisodePanel run={useRun().run} />
    </div>
  );
}
