import { useMutation } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { type EpisodeFind, fragmentsOfEpisode, type Measure } from "@/pages/run/episodes/api";
import { fragmentsOf } from "@/pages/run/episodes/heat";

type Props = { run: string; find: EpisodeFind; of: Measure };

/** Link to the fragment that contains the first step of the episode. */
export function FindEpisode({ run, find, of }: Props) {
  const navigate = useNavigate();
  const search = useMutation({
    mutationFn: () => fragmentsOfEpisode(run, { report: find.report, of, value: find.value }),
    onSuccess: ({ results }) => {
      const [begin] = results;
      if (!begin) return;
      const params = { name: run, fragment: String(begin.fragment) };
      void navigate({ to: "/runs/$name/fragments/$fragment", params, search: { step: begin.first, episode: begin.episode } });
    },
  });
  const problem = search.error ? search.error.message : search.data?.results.length === 0 ? "Not stored." : "";
  if (!problem) {
    return (
      <button type="button" className="link-button nowrap" disabled={search.isPending} onClick={() => search.mutate()}>
        {search.isPending ? "Searching…" : "View episode"}
      </button>
    );
  }
  return (
    <span role="status" className="small" title="Evaluation episodes are not stored, and retention removes old fragments.">
      {problem}{" "}
      <Link to="/runs/$name/trajectories" params={{ name: run }} search={fragmentsOf(find)}>
        Fragments of worker {find.worker}
      </Link>
    </span>
  );
}
