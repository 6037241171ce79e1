import { useMutation } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { type EpisodeFind, fragmentsOfEpisode, type Measure } from "@/pages/run/episodes/api";
import { fragmentsOf } from "@/pages/run/episodes/ranges";

type Props = { run: string; find: EpisodeFind; of: Measure };

const NOT_STORED = "Evaluation episodes are not stored, and retention removes old fragments.";

/** Links to the fragment that contains the first step of the episode, and to the list of its fragments. */
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
  if (problem) {
    return (
      <span role="status" className="small" title={NOT_STORED}>
        {problem} {/* A report without slots leaves the episode unknown: the worker's fragments are the nearest. */}
        {!find.episode && (
          <Link to="/runs/$name/trajectories" params={{ name: run }} search={fragmentsOf(find)}>
            Fragments of worker {find.worker}
          </Link>
        )}
      </span>
    );
  }
  return (
    <span className="nowrap">
      <button type="button" className="link-button" disabled={search.isPending} onClick={() => search.mutate()}>
        {search.isPending ? "Searching…" : "View episode"}
      </button>
      {find.episode && (
        <>
          {" · "}
          <Link to="/runs/$name/transcript" params={{ name: run }} search={{ episode: find.episode }} title="All its steps on one page">
            Transcript
          </Link>
          {" · "}
          <Link to="/runs/$name/trajectories" params={{ name: run }} search={{ episode: find.episode }} title={find.episode}>
            Its fragments
          </Link>
        </>
      )}
    </span>
  );
}
