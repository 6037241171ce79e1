import { Button, Group, NumberInput, Radio, Stack, UnstyledButton } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { useMayOperate } from "@/api/session";
import type { EvaluationRow, LessonChange, LessonRow, MicroEvaluationRow } from "@/api/types";
import type { Ends } from "@/charts/names";
import { DataTable } from "@/components/DataTable";
import { ReasonDialog, SideSheet } from "@/components/Dialog";
import { term } from "@/components/filter/suggest";
import { Age } from "@/components/inline";
import { ErrorState, PANEL_GRID } from "@/components/panels";
import { Table } from "@/components/Table";
import { counted, duration, number, percent, policyStep, shortId, visible } from "@/format";
import { useRun } from "@/pages/run/RunContext";
import { RunWall } from "@/pages/run/RunWall";
import { evaluationQuery, evaluationsQuery, historyQuery, microEvaluationsQuery, type Steering, useSteerLesson } from "./api";
import { intervalText, lessonPanel, moveOf, resultText, unfinishedText, versionOf } from "./curriculum";
import { EvaluateNow } from "./EvaluateNow";
import css from "./lessons.module.css";
import { type Choice, effectOf, isSteered, isStopped, manualText, nameOf, whyNotSteer } from "./steering";

const CHOICES: [Choice, string, string][] = [
  ["", "Automatic", "The curriculum unlocks, graduates and regresses the lesson by its rules."],
  ["locked", "Locked", "Never sampled, regardless of its rules."],
  ["active", "Unlocked", "Sampled and never graduated, regardless of its rules."],
];

type Doing = "steer" | "start" | "back";
const RETURNED: Record<Exclude<Doing, "steer">, { title: (name: string) => string; submit: string; effect: string }> = {
  start: {
    title: (name) => `Start ${name} again`,
    submit: "Start again",
    effect:
      "The lesson returns to its state before the failure, and its open evaluations continue. It stops again if the failure is not repaired.",
  },
  back: {
    title: (name) => `Return ${name} to the curriculum`,
    submit: "Return",
    effect:
      "The lesson follows its rules again. It returns to its state before the override and is re-evaluated immediately with the measurements since.",
  },
};

/** Override the curriculum for a lesson, or end the override; each with its effect and a reason. */
function SteerDialog({ run, lesson, doing, onClose }: { run: string; lesson: LessonRow; doing: Doing; onClose: () => void }) {
  const [hold, setHold] = useState<Choice>(lesson.hold === "stopped" ? "" : lesson.hold);
  const [factor, setFactor] = useState<number | string>(lesson.weight_factor);
  const steer = useSteerLesson(run);
  const send = (wanted: Pick<Steering, "hold" | "weight_factor">) => (reason: string) =>
    steer.mutate({ lesson: lesson.name, ...wanted, reason }, { onSuccess: onClose });
  const common = {
    ...{ asking: steer, refused: "Lesson not changed", onClose },
    recordedIn: "Recorded with your name in the lesson's history and the run's events.",
  };
  if (doing !== "steer") {
    const { title, submit, effect } = RETURNED[doing];
    // A lesson that a failure has stopped keeps its weight.
    const wanted = { hold: "" as const, weight_factor: doing === "start" ? lesson.weight_factor : 1 };
    return (
      <ReasonDialog {...common} title={title(lesson.name)} submit={submit} onSubmit={send(wanted)}>
        <p className="soft">{effect}</p>
      </ReasonDialog>
    );
  }
  const wanted = typeof factor === "number" ? { hold, weight_factor: factor } : null;
  const isNew = wanted !== null && (hold !== lesson.hold || factor !== lesson.weight_factor);
  return (
    <ReasonDialog
      {...common}
      title={`Steer ${lesson.name}`}
      submit="Steer"
      isReady={isNew}
      onSubmit={(reason) => wanted && send(wanted)(reason)}
    >
      <Radio.Group label="State" value={hold || "ruled"} onChange={(value) => setHold(value === "ruled" ? "" : (value as Choice))}>
        <Stack gap="xs" mt="xs">
          {CHOICES.map(([value, label, description]) => (
            <Radio key={value} value={value || "ruled"} label={label} description={description} />
          ))}
        </Stack>
      </Radio.Group>
      <NumberInput
        mt="md"
        label="Weight factor"
        description="Multiplies the curriculum's weight of this lesson; 1 leaves it unchanged."
        value={factor}
        min={0.01}
        max={100}
        step={0.5}
        disabled={hold === "locked"}
        onChange={setFactor}
      />
      <p className="soft" role="status">
        {wanted ? effectOf(lesson, wanted) : "Enter a number from 0.01 to 100."}
      </p>
    </ReasonDialog>
  );
}

function Who({ lesson }: { lesson: LessonRow }) {
  if (isStopped(lesson))
    return (
      <>
        <b>Stopped for the run</b> by its setting <code>on_failure</code>, <Age at={lesson.steered_at} suffix=" ago" />. No task samples or
        evaluates this lesson.
      </>
    );
  if (!isSteered(lesson)) return <>Controlled by the curriculum: {percent(lesson.probability)} of tasks sample this lesson.</>;
  return (
    <>
      <b>{manualText(lesson)}</b> by {nameOf(lesson.steered_by)}, <Age at={lesson.steered_at} suffix=" ago" />
      {lesson.steered_reason && <>: {visible(lesson.steered_reason)}</>}. {percent(lesson.probability)} of tasks sample this lesson.
    </>
  );
}

/** Manual overrides of a lesson, and the actions: steer, return to the curriculum, evaluate. */
function ManualControl({ lesson }: { lesson: LessonRow }) {
  const { run } = useRun();
  const why = whyNotSteer(run, useMayOperate());
  const [doing, setDoing] = useState<Doing | null>(null);
  const act = (what: Doing, label: string) => (
    <Button
      size="compact-sm"
      variant={what === "start" ? undefined : "default"}
      disabled={why !== ""}
      aria-describedby={why ? "why-not-steer" : undefined}
      onClick={() => setDoing(what)}
    >
      {label}
    </Button>
  );
  return (
    <section aria-label="Manual control" className={css.byHand} data-by-hand={isSteered(lesson) || undefined}>
      <p>
        <Who lesson={lesson} />
      </p>
      {lesson.unlock_rule && <p className="small soft">{lesson.unlock_rule}</p>}
      {why && (
        <p id="why-not-steer" className="small faint">
          {why}
        </p>
      )}
      <Group gap="xs">
        {isStopped(lesson) && act("start", "Start again…")}
        {act("steer", "Lock, unlock or change weight…")}
        {isSteered(lesson) && !isStopped(lesson) && act("back", "Return to the curriculum…")}
        {!why && <EvaluateNow run={run} lessons={[lesson.name]} about={lesson.name} />}
      </Group>
      {doing && <SteerDialog run={run.name} lesson={lesson} doing={doing} onClose={() => setDoing(null)} />}
    </section>
  );
}

function Samples({ samples, label }: { samples: EvaluationRow["samples"]; label: string }) {
  return (
    <Table label={label} role="group" columns={["Prompt", "Answer", { label: "Reward", isNumber: true }, "Correct"]}>
      {samples.map((sample, at) => (
        // Rows have no key but their index.
        <tr key={at}>
          <td className={css.answer}>{visible(sample.prompt)}</td>
          <td className={css.answer}>{visible(sample.response)}</td>
          <td data-num>{number(sample.reward)}</td>
          <td>{sample.is_correct ? "yes" : "no"}</td>
        </tr>
      ))}
    </Table>
  );
}

/** The newest micro-evaluation of a lesson with its sample answers, and the error of the newest failed one. */
function MicroAnswers({ rows }: { rows: MicroEvaluationRow[] }) {
  const shown = rows.find(({ answers }) => answers.length > 0);
  const failed = rows[0]?.error ? rows[0] : undefined;
  if (!shown && !failed) return null;
  return (
    <section aria-label="Answers of the newest micro-evaluation">
      <h3>Answers of the newest micro-evaluation</h3>
      {failed && (
        <p className="soft">
          Failed at version {policyStep(failed.policy_step)}: {visible(failed.error)}
        </p>
      )}
      {shown && (
        <>
          <p className="small soft">
            Version {policyStep(shown.policy_step)}: {shown.successes} of {counted(shown.samples, "answer")} correct, mean reward{" "}
            {number(shown.reward_mean)}. Evaluated by <span title={visible(shown.worker)}>{visible(shortId(shown.worker))}</span>.
          </p>
          <Samples samples={shown.answers} label={`Answers of the micro-evaluation at version ${policyStep(shown.policy_step)}`} />
        </>
      )}
    </section>
  );
}

function Outcome({ row }: { row: EvaluationRow }) {
  const { figures } = row;
  if (!figures) return <p className="soft">{unfinishedText(row)}</p>;
  const passes = Object.entries(row.pass_at).map(
    ([k, rate]) => `pass@${k} ${percent(rate.estimate)} (${percent(rate.low)} – ${percent(rate.high)})`,
  );
  return (
    <p className="small soft">
      {number(figures.problems)} problems, {counted(figures.generations, "answer")} each: success {intervalText(figures.success)};{" "}
      {passes.join(", ")}; reward {intervalText(figures.reward)}. Evaluated by{" "}
      <span title={visible(row.worker)}>{visible(shortId(row.worker))}</span> in {duration(figures.seconds)}.
    </p>
  );
}

type AnswersProps = { run: string; lesson: string; newest: EvaluationRow | undefined; chosen: string | undefined };

/** One evaluation's prompts and answers, by default the newest, with links to the samples of its version. */
function Answers({ run, lesson, newest, chosen }: AnswersProps) {
  const picked = useQuery({ ...evaluationQuery(run, chosen ?? ""), enabled: chosen !== undefined });
  const row = chosen === undefined ? newest : picked.data;
  if (picked.error && !picked.data) return <ErrorState title="Evaluation unavailable" error={picked.error} />;
  const at = row && row.policy_step >= -1 ? row.policy_step : undefined;
  const link = (q: string, label: string) => (
    <Link to="/runs/$name/trajectories" params={{ name: run }} search={{ q }}>
      {label}
    </Link>
  );
  return (
    <section aria-label="Answers of one evaluation">
      <h3>
        {chosen === undefined ? "Answers of the newest evaluation" : `Answers of the evaluation at version ${row ? versionOf(row) : "…"}`}
      </h3>
      {row && <Outcome row={row} />}
      {row && row.samples.length > 0 && <Samples samples={row.samples} label={`Answers at version ${policyStep(row.policy_step)}`} />}
      {row?.figures && row.samples.length === 0 && <p className="faint">Its answers are no longer stored.</p>}
      {!row && chosen === undefined && <p className="faint">No answers stored yet.</p>}
      <p className="small">
        {at !== undefined && (
          <>{link(`${term("env", lesson)} ${term("version", at)}`, `Samples of ${lesson} sampled at version ${policyStep(at)}`)} · </>
        )}
        {link(term("env", lesson), `all of ${lesson}`)}
      </p>
    </section>
  );
}

const EVALUATIONS_SHOWN = 8;

type EvaluationsProps = { rows: EvaluationRow[]; chosen: string | undefined; onChoose: (evaluation: string) => void };

/** The evaluations of a lesson, newest first; each opens its answers. */
function Evaluations({ rows, chosen, onChoose }: EvaluationsProps) {
  const hasEpochs = new Set(rows.map(({ epoch }) => epoch)).size > 1;
  return (
    <DataTable
      label="Evaluations, newest first"
      page={EVALUATIONS_SHOWN}
      rows={rows}
      keyOf={({ id }) => id}
      attributes={({ id }) => ({ "data-row": true, "data-evaluation": id, "aria-current": id === chosen || undefined })}
      columns={[
        {
          id: "version",
          label: "Version",
          cell: (row) => (
            <UnstyledButton data-open onClick={() => onChoose(row.id)}>
              {hasEpochs && `epoch ${row.epoch}, `}version {versionOf(row)}
            </UnstyledButton>
          ),
        },
        { id: "success", label: "Success", cell: resultText },
        { id: "finished", label: "Finished", cell: ({ finished_at }) => (finished_at ? <Age at={finished_at} suffix=" ago" /> : "–") },
      ]}
    />
  );
}

function History({ rows }: { rows: LessonChange[] }) {
  if (rows.length === 0) return <p className="faint">No transitions yet.</p>;
  return (
    <ol className={css.history} aria-label="History, newest first">
      {rows.map((row) => (
        <li key={row.id}>
          <b>{row.source === row.target ? moveOf(row) : `${row.source} → ${row.target}`}</b>{" "}
          <span className="small soft">
            {row.actor !== "curriculum" && `by ${nameOf(row.actor)} `}at version {policyStep(row.policy_step)},{" "}
            <Age at={row.at} suffix=" ago" />
          </span>
          <div className="small">{visible(row.reason)}</div>
        </li>
      ))}
    </ol>
  );
}

/** Statistics of the training answers that the table of lessons does not have. */
function TrainingFacts({ lesson }: { lesson: LessonRow }) {
  return (
    <p className="small soft">
      {counted(lesson.examples, "problem")} sampled. Of its groups {percent(lesson.zero_variance_share)} have zero variance; of its answers{" "}
      {percent(lesson.truncated_share)} are truncated and {percent(lesson.duplicate_share)} duplicates, with {number(lesson.tokens_mean)}{" "}
      tokens on average.
    </p>
  );
}

type Props = {
  lesson: LessonRow;
  /** The selected evaluation; defaults to the newest. */
  evaluation?: string;
  revision: number;
  onChoose: (evaluation: string) => void;
  onClose: () => void;
};

/** What a lesson's row has no room for: steering, success by version, evaluations with answers, history. */
export default function LessonDrawer({ lesson, evaluation, revision, onChoose, onClose }: Props) {
  const run = useRun().run.name;
  const evaluations = useQuery(evaluationsQuery(run, lesson.name, revision));
  const history = useQuery(historyQuery(run, lesson.name, revision));
  const micro = useQuery(microEvaluationsQuery(run, lesson.name, revision));
  const [range, setRange] = useState<Ends>({});
  const words = JSON.stringify([lesson.name, Object.keys(lesson.evaluation?.pass_at ?? {})]);
  const panels = useMemo(() => [lessonPanel(lesson)], [words]);
  const error = evaluations.error ?? history.error ?? micro.error;
  const rows = evaluations.data ?? [];
  return (
    <SideSheet onClose={onClose} size="xl" title={`Lesson ${lesson.name}`}>
      <p className="soft">{visible(lesson.reason)}</p>
      <ManualControl lesson={lesson} />
      <RunWall panels={panels} axis="step" range={range} onRange={setRange} className={PANEL_GRID} />
      <p className="small faint">Only full evaluations affect the curriculum; micro-evaluations are informational.</p>
      <TrainingFacts lesson={lesson} />
      {error ? (
        <ErrorState title="Lesson unavailable" error={error} />
      ) : (
        <>
          {rows.length > 0 && <Evaluations rows={rows} chosen={evaluation} onChoose={onChoose} />}
          <Answers run={run} lesson={lesson.name} newest={rows.find(({ samples }) => samples.length > 0)} chosen={evaluation} />
          <MicroAnswers rows={micro.data ?? []} />
          <h3>History</h3>
          <History rows={history.data ?? []} />
        </>
      )}
    </SideSheet>
  );
}
