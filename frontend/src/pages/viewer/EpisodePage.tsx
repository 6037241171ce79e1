import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { type EpisodeDetail, episodeQuery } from "@/api/fragments";
import { Chip } from "@/components/Chip";
import { ErrorState } from "@/components/ErrorState";
import { term } from "@/components/filter/suggest";
import { Skeletons } from "@/components/Skeletons";
import { number, shortId, visible } from "@/format";
import { versionsText } from "@/pages/viewer/fragment";
import { Fact } from "@/pages/viewer/Provenance";
import { StepFacts } from "@/pages/viewer/StepFacts";
import { type ListedPart, StepsReader } from "@/pages/viewer/StepsReader";
import { ViewerLayout } from "@/pages/viewer/ViewerLayout";
import { SampleState } from "@/samples/SampleTable";

const route = getRouteApi("/shell/runs/$name/transcript");
const ENDS: Record<string, [tone: string, sign: string, title: string]> = {
  terminated: ["good", "■", "The environment ended the episode"],
  truncated: ["held", "✂", "The episode was cut at a limit"],
  "": ["quiet", "…", "The end of the episode is not stored"],
};

/** One episode of a fleet run as a transcript: its steps in order, over all fragments that hold it. */
export function EpisodePage() {
  const { name } = route.useParams();
  const { episode } = route.useSearch();
  const { data, error, refetch } = useQuery(episodeQuery(name, episode));
  if (error && !data) return <ErrorState title="Episode unavailable" error={error} onRetry={() => void refetch()} />;
  if (!data) return <Skeletons heights={[40, 420]} />;
  return <Viewer key={episode} run={name} episode={data} />;
}

function Viewer({ run, episode }: { run: string; episode: EpisodeDetail }) {
  const { step } = route.useSearch();
  const navigate = route.useNavigate();
  const [tone = "quiet", sign = "…", title] = ENDS[episode.outcome] ?? [];
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
      aside={<Facts run={run} episode={episode} />}
    >
      {(!episode.begins || episode.is_partial) && (
        <p className="held small" role="status">
          {episode.begins ? "The episode is too long to search completely: steps are missing." : "The first steps are not stored."}
        </p>
      )}
      <StepsReader
        run={run}
        label="Steps of the episode"
        curves={episode.curves}
        parts={episode.parts}
        list={{ title: "Fragments", note: "that hold the episode", parts: listed(run, episode) }}
        chosen={step}
        onChoose={(chosen) => void navigate({ search: (now) => ({ ...now, step: chosen }), replace: true })}
      />
    </ViewerLayout>
  );
}

/** The fragments of the episode, by the steps of the episode. */
function listed(run: string, { id, parts, outcome }: EpisodeDetail): ListedPart[] {
  let before = 0;
  return parts.map((part, place) => {
    const first = before;
    before += part.steps;
    return {
      ...{ id: String(part.fragment), first, steps: part.steps, reward: part.reward },
      ends: outcome !== "" && place === parts.length - 1,
      about: (
        <>
          policy {part.epoch}.{versionsText(part)}{" "}
          <SampleState state={part.state} why={part.drop_reason.replaceAll("_", " ")} step={part.step} />
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

function Facts({ run, episode }: { run: string; episode: EpisodeDetail }) {
  const versions = episode.parts.flatMap(({ version_min, version_max }) => [version_min, version_max]);
  const [first] = episode.parts;
  return (
    <StepFacts
      run={run}
      environment={episode.environment}
      slot={episode.slot}
      worker={episode.worker}
      weights={`${first?.epoch}.${versionsText({ version_min: Math.min(...versions), version_max: Math.max(...versions) })}`}
      received_at={first?.received_at}
    >
      <Fact name="Fragments">
        <Link to="/runs/$name/trajectories" params={{ name: run }} search={{ q: term("episode", episode.id) }}>
          {number(episode.parts.length)} stored
        </Link>
      </Fact>
    </StepFacts>
  );
}
