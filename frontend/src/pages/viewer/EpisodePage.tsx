import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { type EpisodeDetail, episodeQuery } from "@/api/fragments";
import { Age } from "@/components/Age";
import { Chip } from "@/components/Chip";
import { ErrorState } from "@/components/ErrorState";
import { term } from "@/components/filter/suggest";
import { Skeletons } from "@/components/Skeletons";
import { Table } from "@/components/Table";
import { number, shortId, visible } from "@/format";
import { versionsText } from "@/pages/viewer/fragment";
import { Fact } from "@/pages/viewer/Provenance";
import { Steps } from "@/pages/viewer/Steps";
import { workerIndex } from "@/pages/viewer/search";
import { ViewerLayout, Views } from "@/pages/viewer/ViewerLayout";
import styles from "@/pages/viewer/viewer.module.css";
import { SampleState } from "@/samples/SampleTable";

const route = getRouteApi("/shell/runs/$name/transcript");
const VIEWS = ["steps", "fragments"] as const;
const LABELS = { steps: "Steps", fragments: "Fragments" };
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

function End({ outcome }: { outcome: string }) {
  const [tone = "quiet", sign = "…", title] = ENDS[outcome] ?? [];
  return (
    <span title={title}>
      <Chip tone={tone} sign={sign}>
        {outcome || "end not stored"}
      </Chip>
    </span>
  );
}

function Viewer({ run, episode }: { run: string; episode: EpisodeDetail }) {
  const { step, view = "steps" } = route.useSearch();
  const navigate = route.useNavigate();
  const place = episode.id.slice(episode.id.lastIndexOf("/") + 1);
  const show = (changes: { step?: number; view?: "fragments" }) =>
    void navigate({ search: (now) => ({ ...now, ...changes }), replace: true });
  return (
    <ViewerLayout
      run={run}
      label={`Episode ${episode.id}`}
      title={
        <span title={visible(episode.id)}>
          Episode {place} of {visible(shortId(episode.slot))}
        </span>
      }
      list={{ kind: "episode", sort: "score" }}
      chips={
        <>
          <End outcome={episode.outcome} />
          <span>
            <span className="faint">return</span> <b data-return>{number(episode.total_return)}</b>
          </span>
          <span>
            <b>{number(episode.steps)}</b> <span className="faint">steps</span>
          </span>
        </>
      }
      bar={<Views views={VIEWS} labels={LABELS} shown={view} onShow={(each) => show({ view: each === "fragments" ? each : undefined })} />}
      aside={<Facts run={run} episode={episode} />}
    >
      <div role="tabpanel" id="view" aria-labelledby={`view-${view}`} className={`panel ${styles.view}`}>
        {(!episode.begins || episode.is_partial) && (
          <p className="held small" role="status">
            {episode.begins ? "The episode is too long to search completely: steps are missing." : "The first steps are not stored."}
          </p>
        )}
        {view === "steps" ? (
          <Steps run={run} label="Steps of the episode" parts={episode.parts} chosen={step} onChoose={(chosen) => show({ step: chosen })} />
        ) : (
          <Parts run={run} episode={episode} />
        )}
      </div>
    </ViewerLayout>
  );
}

function Facts({ run, episode }: { run: string; episode: EpisodeDetail }) {
  const params = { name: run };
  const worker = workerIndex(episode.worker);
  const versions = episode.parts.flatMap(({ version_min, version_max }) => [version_min, version_max]);
  const [first] = episode.parts;
  return (
    <dl className={styles.facts}>
      <Fact name="Environment">
        <Link
          to="/runs/$name/trajectories"
          params={params}
          search={{ kind: "episode", q: term("env", episode.environment), sort: "score" }}
          title="Worst episodes of this environment"
        >
          {visible(episode.environment)}
        </Link>
      </Fact>
      <Fact name="Env slot">
        <span className="anywhere">{visible(episode.slot)}</span>
      </Fact>
      <Fact name="Worker">
        {worker === null ? (
          visible(episode.worker)
        ) : (
          <Link to="/runs/$name/fleet" params={params} search={{ worker }}>
            worker {worker}
          </Link>
        )}
      </Fact>
      <Fact name="Weights">
        {first?.epoch}.{versionsText({ version_min: Math.min(...versions), version_max: Math.max(...versions) })}
      </Fact>
      <Fact name="Fragments">
        <Link to="/runs/$name/trajectories" params={params} search={{ q: term("episode", episode.id) }}>
          {number(episode.parts.length)} stored
        </Link>
      </Fact>
      {first && (
        <Fact name="Received">
          <Age at={first.received_at} suffix=" ago" />
        </Fact>
      )}
    </dl>
  );
}

/** The stored fragments that hold the episode. */
function Parts({ run, episode }: { run: string; episode: EpisodeDetail }) {
  return (
    <Table
      label="Fragments of the episode"
      columns={[
        "Fragment",
        { label: "Its steps", className: "num", title: "Steps of the episode in the fragment, from 0" },
        { label: "Reward", className: "num" },
        { label: "Policy", className: "num" },
        "State",
      ]}
    >
      {episode.parts.map((part) => (
        <tr key={part.fragment} data-part={part.fragment}>
          <td>
            <Link
              to="/runs/$name/fragments/$fragment"
              params={{ name: run, fragment: String(part.fragment) }}
              search={{ step: part.first, episode: episode.id }}
              className="strong"
            >
              Fragment {number(part.number)}
            </Link>
          </td>
          <td className="num">
            {part.first} – {part.first + part.steps - 1}
          </td>
          <td className="num">{number(part.reward)}</td>
          <td className="num">
            {part.epoch}.{versionsText(part)}
          </td>
          <td>
            <SampleState state={part.state} why={part.drop_reason.replaceAll("_", " ")} step={part.step} />
          </td>
        </tr>
      ))}
    </Table>
  );
}
