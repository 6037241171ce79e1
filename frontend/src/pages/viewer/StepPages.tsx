import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { type EpisodeDetail, episodeQuery, type FragmentContent, type FragmentDetail, fragmentQuery } from "@/api/groups";
import { Chip } from "@/components/chips";
import { term } from "@/components/filter/suggest";
import { ErrorState, Skeletons } from "@/components/panels";
import { bytes, counted, number, shortId, visible } from "@/format";
import { StepFacts } from "@/pages/viewer/Facts";
import { type ListedPart, StepsReader } from "@/pages/viewer/StepsReader";
import { versionsText } from "@/pages/viewer/steps";
import { Neighbours, ViewerLayout } from "@/pages/viewer/ViewerLayout";
import { SampleState } from "@/samples/SampleTable";
import { useShortcuts } from "@/shell/keyboard";

const episodeRoute = getRouteApi("/shell/runs/$name/transcript");
const fragmentRoute = getRouteApi("/shell/runs/$name/fragments/$fragment");
const ENDS: Record<string, [tone: string, sign: string, title: string]> = {
  terminated: ["good", "■", "The environment ended the episode"],
  truncated: ["held", "✂", "The episode was cut at a limit"],
  "": ["quiet", "…", "The end of the episode is not stored"],
};

/** One episode of a fleet run as a transcript: its steps in order, over all fragments that hold it. */
export function EpisodePage() {
  const { name } = episodeRoute.useParams();
  const { episode } = episodeRoute.useSearch();
  const { data, error, refetch } = useQuery(episodeQuery(name, episode));
  if (error && !data) return <ErrorState title="Episode unavailable" error={error} onRetry={() => void refetch()} />;
  if (!data) return <Skeletons heights={[40, 420]} />;
  return <Episode key={episode} run={name} episode={data} />;
}

function Episode({ run, episode }: { run: string; episode: EpisodeDetail }) {
  const { step } = episodeRoute.useSearch();
  const navigate = episodeRoute.useNavigate();
  const [tone = "quiet", sign = "…", title] = ENDS[episode.outcome] ?? [];
  const versions = episode.parts.flatMap(({ version_min, version_max }) => [version_min, version_max]);
  const [first] = episode.parts;
  return (
    <ViewerLayout
      run={run}
      label={`Episode ${episode.id}`}
      title={
        <span title={visible(episode.id)}>
          Episode {episode.id.slice(episode.id.lastIndexOf("/") + 1)} of {visible(shortId(episode.slot))}
        </span>
      }
      list={{ kind: "episode", sort: "score" }}
      chips={
        <>
          <Chip tone={tone} sign={sign} title={title}>
            {episode.outcome || "end not stored"}
          </Chip>
          <span>
            <span className="faint">return</span> <b data-return>{number(episode.total_return)}</b>
          </span>
          <span>
            <b>{number(episode.steps)}</b> <span className="faint">steps</span>
          </span>
        </>
      }
      aside={
        <StepFacts
          run={run}
          source={episode}
          version={{ name: `${first?.epoch}.${versionsText({ version_min: Math.min(...versions), version_max: Math.max(...versions) })}` }}
          received_at={first?.received_at}
          facts={[
            [
              "Fragments",
              <Link key="" to="/runs/$name/trajectories" params={{ name: run }} search={{ q: term("episode", episode.id) }}>
                {number(episode.parts.length)} stored
              </Link>,
            ],
          ]}
        />
      }
    >
      {(!episode.begins || episode.is_partial) && (
        <p className="held small" role="status">
          {episode.begins ? "The episode is too long to search completely: steps are missing." : "The first steps are not stored."}
        </p>
      )}
      <StepsReader
        run={run}
        curves={episode.curves}
        parts={episode.parts}
        title="Fragments"
        note="that hold the episode"
        listed={fragmentsOf(run, episode)}
        chosen={step}
        onChoose={(chosen) => void navigate({ search: (now) => ({ ...now, step: chosen }), replace: true })}
      />
    </ViewerLayout>
  );
}

/** The fragments of the episode, by the steps of the episode. */
function fragmentsOf(run: string, { id, parts }: EpisodeDetail): ListedPart[] {
  let before = 0;
  return parts.map((part) => {
    const first = before;
    before += part.steps;
    return {
      id: String(part.fragment),
      first,
      steps: part.steps,
      reward: part.reward,
      about: (
        <>
          policy {part.epoch}.{versionsText(part)} <SampleState {...part} />
        </>
      ),
      link: (
        <Link
          to="/runs/$name/fragments/$fragment"
          params={{ name: run, fragment: String(part.fragment) }}
          search={{ step: part.first, episode: id }}
        >
          Fragment {number(part.number)}
        </Link>
      ),
    };
  });
}

/** Ids of episodes that can be searched: a slot, a slash and a number. */
const ID = /^.+\/[0-9]{1,18}$/;

/** One fragment of a fleet run: source, return, and every step. */
export function FragmentPage() {
  const { name, fragment } = fragmentRoute.useParams();
  const { data, error, refetch } = useQuery(fragmentQuery(name, Number(fragment)));
  if (error && !data) return <ErrorState title="Fragment unavailable" error={error} onRetry={() => void refetch()} />;
  if (!data) return <Skeletons heights={[40, 420]} />;
  return <FragmentViewer key={fragment} run={name} detail={data} />;
}

function FragmentViewer({ run, detail }: { run: string; detail: FragmentDetail }) {
  const { step, episode } = fragmentRoute.useSearch();
  const navigate = fragmentRoute.useNavigate();
  const { fragment, content, version, before, after } = detail;
  const opening = (other: number | null) => {
    if (other === null) return undefined;
    return () => void navigate({ params: { name: run, fragment: String(other) }, search: { episode } });
  };
  useShortcuts({ Escape: () => void navigate({ to: "/runs/$name/trajectories", params: { name: run } }) });
  const versions = `${fragment.epoch}.${versionsText(fragment)}`;
  const padding = content ? content.steps - content.real_steps : 0;
  return (
    <ViewerLayout
      run={run}
      label={`Fragment ${fragment.id}`}
      title={
        <>
          {visible(fragment.slot)} · {number(fragment.number)}
        </>
      }
      chips={<SampleState {...fragment} />}
      actions={
        <Neighbours
          ways={[
            ["Previous in slot", "[", opening(before)],
            ["Next", "]", opening(after)],
          ]}
        />
      }
      aside={
        <StepFacts
          run={run}
          source={fragment}
          version={{ id: version, name: versions }}
          batch={fragment.batch === null ? null : { id: fragment.batch, step: fragment.step }}
          received_at={fragment.received_at}
          facts={[
            [
              "Return",
              <b key="" data-return>
                {number(fragment.reward_sum)}
              </b>,
            ],
            ["Steps", `${number(fragment.steps)}${padding > 0 ? ` and ${number(padding)} of padding` : ""}, ${bytes(fragment.size_bytes)}`],
            fragment.uses > 0 && ["Sampled into", counted(fragment.uses, "batch", "batches")],
          ]}
        />
      }
    >
      {!content && <ErrorState title="Content unavailable" error={detail.problem} />}
      {content && (
        <StepsReader
          run={run}
          curves={content.curves}
          parts={[{ fragment: fragment.id, first: 0, steps: content.steps }]}
          title="Episodes"
          note={`the part within this fragment${content.episodes_left_out > 0 ? `; ${number(content.episodes_left_out)} more` : ""}`}
          listed={content.episodes.map((part) => episodeIn(run, part, part.id === episode))}
          chosen={step}
          onChoose={(chosen) => void navigate({ search: { step: chosen, episode }, replace: true })}
        />
      )}
    </ViewerLayout>
  );
}

const episodeIn = (run: string, part: FragmentContent["episodes"][number], isCurrent: boolean): ListedPart => ({
  id: `${part.first} ${part.id}`,
  first: part.first,
  steps: part.steps,
  reward: part.reward,
  isCurrent,
  about: `${part.begins ? "begins" : "continues"}${part.outcome ? `, ${part.outcome}` : ""}`,
  title: visible(part.id),
  link: ID.test(part.id) && (
    <Link to="/runs/$name/transcript" params={{ name: run }} search={{ episode: part.id }} title="All stored steps of the episode">
      Transcript
    </Link>
  ),
});
