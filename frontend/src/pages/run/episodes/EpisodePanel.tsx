import { SegmentedControl } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import type { EpisodeSummary, RunDetail, TaskEpisodes } from "@/api/types";
import { EmptyState } from "@/components/EmptyState";
import { ErrorState } from "@/components/ErrorState";
import { term } from "@/components/filter/suggest";
import { Hint } from "@/components/Hint";
import { Line } from "@/components/Lanes";
import { Panel } from "@/components/Panel";
import { clock, counted, number, percent, visible } from "@/format";
import { episodeSummaryQuery } from "@/pages/run/episodes/api";
import { inOrder, outcomesOf, place, type Range, rangeOf, type Spread, spreadOf } from "@/pages/run/episodes/distribution";
import css from "@/pages/run/episodes/episodes.module.css";
import { episodesSearch, SPANS, type SpanChoice } from "@/pages/run/episodes/search";
import runCss from "@/pages/run/run.module.css";
import { trainerCommand, wordsOf } from "@/runs/words";

const LABELS: Record<SpanChoice, string> = { 60: "1 min", 300: "5 min", 3600: "1 h" };
const SPAN_WORDS: Record<SpanChoice, string> = { 60: "minute", 300: "5 minutes", 3600: "hour" };
const route = getRouteApi("/shell/runs/$name/episodes");
const ENDED = new Set(["stopped", "completed", "failed"]);
const MODES: Record<TaskEpisodes["mode"], string> = { train: "training", eval: "evaluation" };

type StripProps = { name: string; mean: number; spread: Spread | null; range: Range | null };

/** A box plot: box p25–p75, line p5–p95, mark at the median. */
function Strip({ name, mean, spread, range }: StripProps) {
  const at = (value: number) => (range ? place(value, range) : 50);
  const words = spread
    ? `${name}: mean ${number(mean)}; percentiles 5 ${number(spread.p5)}, 25 ${number(spread.p25)}, 50 ${number(spread.p50)}, 75 ${number(spread.p75)}, 95 ${number(spread.p95)}`
    : `${name}: mean ${number(mean)}`;
  return (
    <div data-strip={name}>
      <div className={css.stripHead}>
        <span className="soft">{name}</span>
        <span>
          <span className="faint tiny">mean</span> <b>{number(mean)}</b>
        </span>
      </div>
      {spread ? (
        <Hint label={words}>
          <div tabIndex={0} role="img" aria-label={words}>
            <div className={css.stripTrack} aria-hidden="true">
              <span className={css.stripLine} style={{ left: `${at(spread.p5)}%`, right: `${100 - at(spread.p95)}%` }} />
              <span className={css.stripBox} style={{ left: `${at(spread.p25)}%`, right: `${100 - at(spread.p75)}%` }} />
              <span className={css.stripMark} style={{ left: `${at(spread.p50)}%` }} />
            </div>
            <div className={`${css.stripEnds} tiny faint`} aria-hidden="true">
              <span>p5 {number(spread.p5)}</span>
              <span>median {number(spread.p50)}</span>
              <span>p95 {number(spread.p95)}</span>
            </div>
          </div>
        </Hint>
      ) : (
        <div className={`${css.stripEnds} tiny faint`}>none finished</div>
      )}
    </div>
  );
}

const OUTCOME_FILLS = { terminated: "var(--chart-3)", truncated: "var(--chart-4)", aborted: "var(--bad)" };

function Outcomes({ task }: { task: TaskEpisodes }) {
  const outcomes = outcomesOf(task);
  return (
    <div>
      <div className={css.stripHead}>
        <span className="soft">Ended</span>
      </div>
      <Line segments={outcomes.map(({ name, part }) => ({ key: name, width: part ?? 0, fill: OUTCOME_FILLS[name] }))} />
      <div className={`${css.stripWords} tiny`}>
        {outcomes.map(({ name, count, part }) => (
          <span key={name} data-outcome={name} data-count={count} className={count === 0 ? "faint" : "soft"}>
            <span className={runCss.swatch} style={{ background: OUTCOME_FILLS[name] }} aria-hidden="true" /> {name} {percent(part)}
          </span>
        ))}
      </div>
    </div>
  );
}

type TaskProps = { run: RunDetail; task: TaskEpisodes; unit: string; returns: Range | null; lengths: Range | null };

function Task({ run, task, unit, returns, lengths }: TaskProps) {
  return (
    <section className={css.task} aria-label={`${task.environment}, ${MODES[task.mode]}`} data-task={task.mode}>
      <h3 className={css.taskHead}>
        <span className="anywhere">{visible(task.environment)}</span>
        <span className={`${css.mode} ${css[`mode-${task.mode}`]}`}>{MODES[task.mode]}</span>
        <span className="faint tiny nowrap">{counted(task.count, "episode")}</span>
        {run.kind === "fleet" && task.mode === "train" && (
          <Link
            to="/runs/$name/trajectories"
            params={{ name: run.name }}
            search={{ kind: "episode", q: term("env", task.environment), sort: "score" }}
            className="small nowrap"
            aria-label={`Worst episodes of ${visible(task.environment)}`}
          >
            Worst episodes
          </Link>
        )}
      </h3>
      <div className={css.taskStrips}>
        <Strip name="Return" mean={task.means.total_return} spread={spreadOf(task.percentiles)} range={returns} />
        <Strip name={`Length in ${unit}`} mean={task.means.length} spread={spreadOf(task.length_percentiles)} range={lengths} />
        <Outcomes task={task} />
      </div>
    </section>
  );
}

/** Training and evaluation of one environment share scales, for comparison. */
function Tasks({ run, tasks }: { run: RunDetail; tasks: TaskEpisodes[] }) {
  return inOrder(tasks).map((task) => {
    const alike = tasks.filter(({ environment }) => environment === task.environment);
    return (
      <Task
        key={`${task.environment} ${task.mode}`}
        run={run}
        task={task}
        unit={wordsOf(run.kind).length}
        returns={rangeOf(alike.map((one) => spreadOf(one.percentiles)))}
        lengths={rangeOf(alike.map((one) => spreadOf(one.length_percentiles)))}
      />
    );
  });
}

function Over({ summary }: { summary: EpisodeSummary }) {
  const environments = new Set(summary.tasks.map(({ environment }) => environment)).size;
  if (environments < 2) return null;
  const rows = [
    ["Training", summary.train_weighted, summary.train_unweighted],
    ["Evaluation", summary.eval_weighted, summary.eval_unweighted],
  ] as const;
  return (
    <p className={`small soft ${css.taskOver}`}>
      Mean return over {environments} environments.{" "}
      {rows.map(
        ([name, each, environment]) =>
          each &&
          environment && (
            <span key={name}>
              {name}: <b>{number(each.total_return)}</b> weighted by episode, <b>{number(environment.total_return)}</b> weighted by
              environment.{" "}
            </span>
          ),
      )}
    </p>
  );
}

function Nothing({ run, span }: { run: RunDetail; span: SpanChoice }) {
  const words = SPAN_WORDS[span];
  const title = `No finished episodes in the last ${words}`;
  const params = { name: run.name };
  if (ENDED.has(run.status)) {
    const earlier = (
      <Link to="/runs/$name/trajectories" params={params} search={{ kind: "episode" }}>
        Earlier episodes
      </Link>
    );
    return (
      <EmptyState title={title} action={earlier}>
        The run is {run.status}. The charts below show earlier episodes.
      </EmptyState>
    );
  }
  if (run.policy_step === -2) {
    return (
      <EmptyState title={title} command={trainerCommand(run, location.origin)} needs={{ scope: "trainer", run: run.name }}>
        Episodes start once a trainer has published its first weights.
      </EmptyState>
    );
  }
  const fleet = (
    <Link to="/runs/$name/fleet" params={params}>
      Fleet
    </Link>
  );
  return (
    <EmptyState title={title} action={fleet}>
      Choose a longer period, or check the fleet for problems.
    </EmptyState>
  );
}

/** Statistics of recent episodes: return, length and outcome. */
export function EpisodePanel({ run }: { run: RunDetail }) {
  const { span = 300 } = route.useSearch();
  const navigate = route.useNavigate();
  const setSpan = (chosen: string) =>
    void navigate({ search: (old) => ({ ...old, span: episodesSearch({ span: chosen }).span }), replace: true, resetScroll: false });
  const goesOn = !ENDED.has(run.status);
  const { data, error } = useQuery({ ...episodeSummaryQuery(run.name, span, goesOn), enabled: run.kind !== "outside" });
  if (run.kind === "outside") return null;
  return (
    <Panel
      title="Episodes"
      note={
        data?.since
          ? `finished since ${clock(data.since)}, the newest of the last ${SPAN_WORDS[span]}`
          : `finished in the last ${SPAN_WORDS[span]}`
      }
      aside={
        <SegmentedControl
          size="xs"
          data={SPANS.map((each) => ({ value: String(each), label: LABELS[each] }))}
          value={String(span)}
          aria-label="Period"
          onChange={setSpan}
        />
      }
      className="span-12"
    >
      {error && !data ? (
        <ErrorState title="Episode statistics unavailable" error={error} />
      ) : !data ? null : data.tasks.length === 0 ? (
        <Nothing run={run} span={span} />
      ) : (
        <>
          <Tasks run={run} tasks={data.tasks} />
          <Over summary={data} />
        </>
      )}
    </Panel>
  );
}
