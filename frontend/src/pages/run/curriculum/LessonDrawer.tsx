import { Button, Group, NumberInput, Paper, Radio, Stack, Text, UnstyledButton } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { useMayOperate } from "@/api/session";
import type { EvaluationRow, LessonChange, LessonPass, LessonProblem, LessonRow } from "@/api/types";
import type { Ends } from "@/charts/names";
import { type Column, DataTable } from "@/components/DataTable";
import { ReasonDialog, SideSheet } from "@/components/Dialog";
import { term } from "@/components/filter/suggest";
import { Age } from "@/components/inline";
import { ErrorState, PANEL_GRID } from "@/components/panels";
import { Table } from "@/components/Table";
import { counted, duration, number, percent, policyStep, shortId, visible } from "@/format";
import { useRun } from "@/pages/run/RunContext";
import { RunWall } from "@/pages/run/RunWall";
import { evaluationQuery, evaluationsQuery, historyQuery, passesQuery, type Steering, skippedQuery, useSteerLesson } from "./api";
import { lessonPanel, resultText, versionOf } from "./curriculum";
import { isSteered, isStopped, manualText, nameOf, whyNotSteer } from "./steering";

const AUTOMATIC = "ruled";
const CHOICES: [value: string, label: string, description: string][] = [
  [AUTOMATIC, "Automatic", "The curriculum unlocks, graduates and regresses the lesson by its rules."],
  ["locked", "Locked", "Never sampled, regardless of its rules."],
  ["active", "Unlocked", "Sampled and never graduated, regardless of its rules."],
];

type SteerProps = { run: string; lesson: LessonRow; onClose: () => void };

/** Override the curriculum for a lesson, or end the override. */
function SteerDialog({ run, lesson, onClose }: SteerProps) {
  const [hold, setHold] = useState<string>((lesson.hold !== "stopped" && lesson.hold) || AUTOMATIC);
  const [factor, setFactor] = useState<number | string>(lesson.weight_factor);
  const steer = useSteerLesson(run);
  const isNew = hold !== (lesson.hold || AUTOMATIC) || factor !== lesson.weight_factor;
  const send = (reason: string) => {
    const wanted = { hold: (hold === AUTOMATIC ? "" : hold) as Steering["hold"], weight_factor: Number(factor) };
    steer.mutate({ lesson: lesson.name, ...wanted, reason }, { onSuccess: onClose });
  };
  return (
    <ReasonDialog
      title={`Steer ${lesson.name}`}
      submit="Steer"
      asking={steer}
      refused="Lesson not changed"
      recordedIn="Recorded with your name in the lesson's history and the run's events."
      isReady={isNew && factor !== ""}
      onSubmit={send}
      onClose={onClose}
    >
      <Radio.Group label="State" value={hold} onChange={setHold}>
        <Stack gap="xs" mt="xs">
          {CHOICES.map(([value, label, description]) => (
            <Radio key={value} value={value} label={label} description={description} />
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
    </ReasonDialog>
  );
}

/** Manual overrides of a lesson, and their change. */
function ManualControl({ lesson }: { lesson: LessonRow }) {
  const { run } = useRun();
  const why = whyNotSteer(run, useMayOperate());
  const [isSteering, setSteering] = useState(false);
  const hasFailed = isStopped(lesson);
  const { steered_by, steered_at, steered_reason, unlock_rule, probability } = lesson;
  return (
    <Paper component="section" withBorder p="sm" my="sm" aria-label="Manual control">
      <Text mb="xs">
        {hasFailed && (
          <>
            <b>Stopped for the run</b> by its setting <code>on_failure</code>, <Age at={steered_at} suffix=" ago" />.
          </>
        )}
        {!hasFailed && isSteered(lesson) && (
          <>
            <b>{manualText(lesson)}</b> by {nameOf(steered_by)}, <Age at={steered_at} suffix=" ago" />
            {steered_reason && <>: {visible(steered_reason)}</>}.
          </>
        )}
        {!hasFailed && !isSteered(lesson) && "Controlled by the curriculum."} {percent(probability)} of tasks sample this lesson.
      </Text>
      {unlock_rule && <p className="small soft">{unlock_rule}</p>}
      <Group gap="xs">
        <Button
          size="compact-sm"
          variant={hasFailed ? "filled" : "default"}
          disabled={why !== ""}
          aria-describedby={why ? "why-not-steer" : undefined}
          onClick={() => setSteering(true)}
        >
          {hasFailed ? "Start again…" : "Lock, unlock or change weight…"}
        </Button>
        {why && (
          <Text id="why-not-steer" size="sm" c="var(--ink-faint)">
            {why}
          </Text>
        )}
      </Group>
      {isSteering && <SteerDialog run={run.name} lesson={lesson} onClose={() => setSteering(false)} />}
    </Paper>
  );
}

function Samples({ samples, label }: { samples: EvaluationRow["samples"]; label: string }) {
  return (
    <Table label={label} role="group" columns={["Prompt", "Answer", { label: "Reward", isNumber: true }, "Correct"]}>
      {samples.map(({ prompt, response, reward, is_correct }, at) => (
        // Rows have no key but their index.
        <tr key={at}>
          {[prompt, response].map((text, column) => (
            <td key={column} className="mono anywhere" style={{ whiteSpace: "pre-wrap" }}>
              {visible(text)}
            </td>
          ))}
          <td data-num>{number(reward)}</td>
          <td>{is_correct ? "yes" : "no"}</td>
        </tr>
      ))}
    </Table>
  );
}

function Outcome({ row }: { row: EvaluationRow }) {
  const { figures } = row;
  if (!figures) return <p className="soft">{resultText(row)}</p>;
  return (
    <p className="small soft">
      {number(figures.problems)} problems, {counted(figures.generations, "answer")} each: success {resultText(row)}. Evaluated by{" "}
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
        {row && row.policy_step >= -1
          ? link(
              `${term("env", lesson)} ${term("version", row.policy_step)}`,
              `Samples of ${lesson} sampled at version ${policyStep(row.policy_step)}`,
            )
          : link(term("env", lesson), `Samples of ${lesson}`)}
      </p>
    </section>
  );
}

const EVALUATIONS_SHOWN = 8;
const SKIPPED_SHOWN = 8;

const evaluationColumns = (rows: EvaluationRow[], onChoose: (evaluation: string) => void): Column<EvaluationRow>[] => [
  {
    label: "Version",
    cell: (row) => (
      <UnstyledButton data-open onClick={() => onChoose(row.id)}>
        {rows.some(({ epoch }) => epoch !== row.epoch) && `epoch ${row.epoch}, `}version {versionOf(row)}
      </UnstyledButton>
    ),
  },
  { label: "Success", cell: resultText },
  { label: "Finished", cell: ({ finished_at }) => (finished_at ? <Age at={finished_at} suffix=" ago" /> : "–") },
];

const HISTORY: Column<LessonChange>[] = [
  {
    label: "Change",
    cell: ({ source, target, reason }) => (
      <>
        <b>{source === target ? "steered" : `${source} → ${target}`}</b>
        <div className="small">{visible(reason)}</div>
      </>
    ),
  },
  { label: "By", cell: ({ actor }) => nameOf(actor) },
  { label: "Version", isNumber: true, cell: ({ policy_step }) => policyStep(policy_step) },
  { label: "Changed", cell: ({ at }) => <Age at={at} suffix=" ago" /> },
];

const PASSES: Column<LessonPass>[] = [
  { label: "Pass", isNumber: true, cell: ({ number: place }) => number(place + 1) },
  { label: "Problems", isNumber: true, cell: ({ size }) => number(size) },
  { label: "Trained", isNumber: true, cell: ({ trained }) => number(trained) },
  { label: "In the buffer", isNumber: true, cell: ({ answered }) => number(answered) },
  { label: "Sampled now", isNumber: true, cell: ({ leased }) => number(leased) },
  { label: "To repeat", isNumber: true, cell: ({ returned }) => number(returned) },
  { label: "Not assigned", isNumber: true, cell: ({ unassigned }) => number(unassigned) },
  {
    label: "Skipped",
    cell: ({ skipped }) =>
      Object.entries(skipped)
        .map(([reason, problems]) => `${number(problems)} ${reason.replaceAll("_", " ")}`)
        .join(", ") || "–",
  },
];

const SKIPPED: Column<LessonProblem>[] = [
  { label: "Problem", isNumber: true, cell: ({ number: place }) => String(place) },
  { label: "Pass", isNumber: true, cell: ({ pass_number }) => number(pass_number + 1) },
  { label: "Reason", cell: ({ reason }) => reason.replaceAll("_", " ") },
  { label: "Attempts", isNumber: true, cell: ({ attempts }) => number(attempts) },
  { label: "Last worker", cell: ({ worker }) => <span title={visible(worker)}>{visible(shortId(worker))}</span> },
  { label: "Last attempt", cell: ({ leased_at }) => <Age at={leased_at} suffix=" ago" /> },
];

type Props = {
  lesson: LessonRow;
  /** The selected evaluation; defaults to the newest. */
  evaluation?: string;
  revision: number;
  onChoose: (evaluation: string) => void;
  onClose: () => void;
};

/** Details of a lesson: steering, success by version, evaluations with answers, history. */
export default function LessonDrawer({ lesson, evaluation, revision, onChoose, onClose }: Props) {
  const run = useRun().run.name;
  const evaluations = useQuery(evaluationsQuery(run, lesson.name, revision));
  const history = useQuery(historyQuery(run, lesson.name, revision));
  const passes = useQuery(passesQuery(run, lesson.name, revision));
  const skips = passes.data?.some(({ skipped }) => Object.keys(skipped).length > 0) ?? false;
  const skipped = useQuery({ ...skippedQuery(run, lesson.name, revision), enabled: skips });
  const [range, setRange] = useState<Ends>({});
  const words = JSON.stringify([lesson.name, Object.keys(lesson.evaluation?.pass_at ?? {})]);
  const panels = useMemo(() => [lessonPanel(lesson)], [words]);
  const rows = evaluations.data ?? [];
  return (
    <SideSheet onClose={onClose} size="xl" title={`Lesson ${lesson.name}`}>
      <p className="soft">{visible(lesson.reason)}</p>
      <ManualControl lesson={lesson} />
      <RunWall panels={panels} axis="step" range={range} onRange={setRange} className={PANEL_GRID} />
      <h3>Passes over its problems</h3>
      <DataTable
        label="Passes, newest first"
        rows={passes.data}
        error={passes.error}
        columns={PASSES}
        keyOf={({ number: place }) => String(place)}
        empty={<p className="faint">No problems assigned yet.</p>}
      />
      {skips && (
        <DataTable
          label="Skipped problems, newest first"
          page={SKIPPED_SHOWN}
          rows={skipped.data}
          error={skipped.error}
          columns={SKIPPED}
          keyOf={({ number: place }) => String(place)}
        />
      )}
      {(rows.length > 0 || evaluations.error) && (
        <>
          <h3>Evaluations</h3>
          <DataTable
            label="Evaluations, newest first"
            page={EVALUATIONS_SHOWN}
            rows={evaluations.data}
            error={evaluations.error}
            keyOf={({ id }) => id}
            attributes={({ id }) => ({ "data-row": true, "data-evaluation": id, "aria-current": id === evaluation || undefined })}
            columns={evaluationColumns(rows, onChoose)}
          />
        </>
      )}
      <Answers run={run} lesson={lesson.name} newest={rows.find(({ samples }) => samples.length > 0)} chosen={evaluation} />
      <h3>History</h3>
      <DataTable
        label="History, newest first"
        rows={history.data}
        error={history.error}
        columns={HISTORY}
        keyOf={({ id }) => id}
        empty={<p className="faint">No transitions yet.</p>}
      />
    </SideSheet>
  );
}
