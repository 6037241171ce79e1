import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type PromptRow, promptsQuery } from "@/api/compare";
import { answerOf, messagesQuery, partsText, sequencesQuery } from "@/api/groups";
import { lineStyleAt } from "@/charts/lineStyles";
import { Swatch } from "@/charts/Swatch";
import { ErrorState } from "@/components/ErrorState";
import { term } from "@/components/filter/suggest";
import { Panel } from "@/components/Panel";
import { counted, number, policyStep, visible } from "@/format";
import css from "./prompts.module.css";

const CHARACTERS_SHOWN = 4000;

type InRun = PromptRow["runs"][number];

/** The best answer in a run's newest group of the prompt. */
function BestAnswer({ run, group }: { run: string; group: number }) {
  const sequences = useQuery(sequencesQuery(run, group));
  const best = [...(sequences.data?.results ?? [])].sort((one, other) => (other.score ?? -Infinity) - (one.score ?? -Infinity))[0];
  const said = useQuery({
    ...messagesQuery(run, group, best?.index ?? 0, CHARACTERS_SHOWN),
    enabled: best !== undefined && sequences.data?.has_messages === true,
  });
  const problem = sequences.error ?? said.error;
  if (problem) return <p className="small soft">{problem.message}</p>;
  if (sequences.data && !sequences.data.has_messages) return <p className="small soft">The group has tokens but no messages: open it.</p>;
  const answer = answerOf(said.data?.results ?? []);
  return (
    <>
      {answer.map((message) => (
        <div key={message.index} className={css.said}>
          <span className="faint tiny">{visible(message.role)}</span>
          <p>{visible(partsText(message))}</p>
        </div>
      ))}
      {said.data && answer.length === 0 && <p className="small soft">Empty answer.</p>}
      {best && (
        <p className="faint tiny">
          best of {number(sequences.data?.results.length)}, score {number(best.score)}
        </p>
      )}
    </>
  );
}

type SampleProps = { run: string; place: number; found: InRun | undefined; prompt: string };

function Sample({ run, place, found, prompt }: SampleProps) {
  return (
    <section className={css.sample} aria-label={`Sample of ${run}`}>
      <h3>
        <Swatch look={lineStyleAt(place)} /> {run}
      </h3>
      {found ? (
        <>
          <p className="small soft">
            mean <b>{number(found.score_mean)}</b>, {number(found.score_min)} to {number(found.score_max)}, newest{" "}
            {counted(found.groups, "group")} ·{" "}
            <Link to="/runs/$name/groups/$group" params={{ name: run, group: String(found.newest) }}>
              group {found.newest}
            </Link>
            {found.policy_step !== null && <> by policy {policyStep(found.policy_step)}</>} ·{" "}
            <Link to="/runs/$name/trajectories" params={{ name: run }} search={{ q: term("prompt", prompt) }}>
              all groups
            </Link>
          </p>
          <BestAnswer run={run} group={found.newest} />
        </>
      ) : (
        <p className="small faint">No recent group of this run has this prompt.</p>
      )}
    </section>
  );
}

type Props = {
  runs: string[];
  places: Map<string, number>;
  chosen: string | undefined;
  onChoose: (prompt: string) => void;
};

/** Prompts that several runs share, with the answer of each. */
export function Prompts({ runs, places, chosen, onChoose }: Props) {
  const { data, error } = useQuery({ ...promptsQuery(runs), enabled: runs.length > 0 });
  if (error && !data) return <ErrorState title="Prompts unavailable" error={error} />;
  if (!data) return null;
  const shown = data.find(({ prompt }) => prompt === chosen) ?? data[0];
  const shared = data.filter((row) => row.runs.length > 1).length;
  const note = shared > 0 ? `${number(shared)} prompts shared by several runs` : "no prompt shared by recent groups";
  return (
    <Panel title="Shared prompts" note={note}>
      {!shown && (
        <p className="small soft">
          No group of these runs has a readable prompt. Groups of environment fleets have none, and groups stored before this version are
          not indexed.
        </p>
      )}
      {shown && (
        <div className={css.page}>
          <ul className={css.list} aria-label="Prompts">
            {data.map((row) => (
              <li key={row.prompt}>
                <button type="button" aria-pressed={row === shown} onClick={() => onChoose(row.prompt)}>
                  <span className={css.excerpt}>{visible(row.excerpt || row.example || row.prompt.slice(0, 8))}</span>
                  <span className="faint tiny">
                    {row.lesson && `${visible(row.lesson)} · `}
                    {row.runs.length > 1 ? `${row.runs.length} runs` : row.runs[0]?.run}
                  </span>
                </button>
              </li>
            ))}
          </ul>
          <div className={css.samples}>
            {runs.map((run) => (
              <Sample
                key={run}
                run={run}
                place={places.get(run) ?? 0}
                prompt={shown.prompt}
                found={shown.runs.find((each) => each.run === run)}
              />
            ))}
          </div>
        </div>
      )}
    </Panel>
  );
}
