import { Button, Stack, UnstyledButton } from "@mantine/core";
import { useThrottledValue } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import type { CurriculumPart, LessonRow, RunDetail } from "@/api/types";
import type { Ends } from "@/charts/names";
import { StateChip } from "@/components/chips";
import { type Column, DataTable } from "@/components/DataTable";
import { Age, AppLink, Hint } from "@/components/inline";
import { onDemand } from "@/components/onDemand";
import { EmptyState, ErrorState, Guarded, PANEL_GRID, Panel, Skeletons } from "@/components/panels";
import { count, counted, number, percent, policyStep, visible } from "@/format";
import { useRun } from "@/pages/run/RunContext";
import { RunWall } from "@/pages/run/RunWall";
import { trainerCommand } from "@/runs/words";
import { lessonsQuery } from "./api";
import { barOf, type Interval, intervalText, LOOK_AT_MOST_EVERY_MS, lessonPanels, linedOf, summaryOf } from "./curriculum";
import { EvaluateNow } from "./EvaluateNow";
import css from "./lessons.module.css";
import { appliedText, isStopped, manualText, stoppedText } from "./steering";

const LessonDrawer = onDemand(() => import("./LessonDrawer"), "default");

/** A success rate with its interval and the goal. */
function SuccessBar({ success, goal }: { success: Interval; goal: number }) {
  const { left, width, at } = barOf(success);
  const words = `Success ${intervalText(success)}; goal ${number(goal)}`;
  return (
    <Hint label={words}>
      <span className={css.interval} role="img" aria-label={words} tabIndex={0}>
        <span className={css.intervalRange} style={{ left, width }} />
        <span className={css.intervalAt} style={{ left: at }} />
        <span className={css.intervalGoal} style={{ left: barOf({ ...success, estimate: goal }).at }} />
      </span>
    </Hint>
  );
}

const columnsOf = (onOpen: (lesson: string) => void): Column<LessonRow>[] => [
  {
    id: "lesson",
    label: "Lesson",
    className: css.what,
    cell: ({ name, spec, requires }) => (
      <>
        <UnstyledButton data-open onClick={() => onOpen(name)}>
          {name}
        </UnstyledButton>
        <div className="small faint">
          {spec}
          {requires.length > 0 && ` · after ${requires.map(({ lesson }) => lesson).join(", ")}`}
        </div>
      </>
    ),
  },
  {
    id: "state",
    label: "State",
    value: ({ status }) => status,
    cell: (row) => (
      <>
        <StateChip state={row.status} since={row.changed_at} />
        {isStopped(row) && <div className="small bad">stopped after a failure</div>}
        {row.hold && !isStopped(row) && <div className={`small ${css.byHandMark}`}>{manualText({ ...row, weight_factor: 1 })}</div>}
        {row.has_regressed && <div className="small held">below its graduation result</div>}
      </>
    ),
  },
  {
    id: "share",
    label: "Share",
    title: "Share of tasks",
    isNumber: true,
    value: ({ probability }) => probability,
    cell: ({ probability, weight_factor }) => (
      <>
        {percent(probability)}
        {weight_factor !== 1 && <div className={`small ${css.byHandMark} nowrap`}>{`× ${number(weight_factor)} manual`}</div>}
      </>
    ),
  },
  {
    id: "success",
    label: "Success",
    title: "In training, as the strategy uses it",
    isNumber: true,
    value: ({ samples, success }) => (samples > 0 ? success : null),
    cell: ({ samples, success }) => (samples > 0 ? percent(success) : "–"),
  },
  {
    id: "samples",
    label: "Samples",
    isNumber: true,
    value: ({ samples }) => samples,
    cell: ({ samples }) => count(samples),
  },
  {
    id: "evaluation",
    label: "Evaluation",
    value: ({ evaluation }) => evaluation?.figures?.success.estimate,
    cell: ({ evaluation, stop_success }) =>
      evaluation?.figures ? (
        <>
          <SuccessBar success={evaluation.figures.success} goal={stop_success} />
          <div className="small nowrap">
            {percent(evaluation.figures.success.estimate)}{" "}
            <span className="faint">
              at version {policyStep(evaluation.policy_step)}, <Age at={evaluation.finished_at} suffix=" ago" />
            </span>
          </div>
        </>
      ) : (
        <span className="faint">not evaluated yet</span>
      ),
  },
  {
    id: "why",
    label: "Why",
    className: `small ${css.why}`,
    cell: ({ reason, errors, last_error }) => (
      <>
        {visible(reason)}
        {errors > 0 && <div className="bad">{`${count(errors)} × ${visible(last_error)}`}</div>}
      </>
    ),
  },
];

const NOTHING: LessonRow[] = [];

function Known({ run, curriculum }: { run: RunDetail; curriculum: CurriculumPart }) {
  const { lesson: opened, evaluation } = useSearch({ from: "/shell/runs/$name/curriculum" });
  const navigate = useNavigate({ from: "/runs/$name/curriculum" });
  const revision = useThrottledValue(curriculum.revision, LOOK_AT_MOST_EVERY_MS);
  const { data, error } = useQuery(lessonsQuery(run.name, revision));
  const [range, setRange] = useState<Ends>({});
  const lessons = data?.results ?? NOTHING;
  const words = JSON.stringify([linedOf(lessons), lessons.length]);
  const panels = useMemo(() => lessonPanels(lessons), [words]);
  const show = (lesson?: string, chosen?: string) => void navigate({ search: { lesson, evaluation: chosen }, replace: true });
  const columns = columnsOf(show);
  const open = lessons.find(({ name }) => name === opened);
  const { evaluations_open: pending } = curriculum;
  return (
    <Stack gap="md">
      <RunWall panels={panels} axis="step" range={range} onRange={setRange} className={PANEL_GRID} />
      <Guarded>
        <Panel
          title="Curriculum"
          note={summaryOf(curriculum, data?.results) + (pending > 0 ? `, ${counted(pending, "evaluation")} pending` : "")}
          aside={
            <>
              <span className="small faint">{curriculum.strategy}</span>
              <EvaluateNow run={run} lessons={lessons.map(({ name }) => name)} />
            </>
          }
        >
          {appliedText(curriculum) && (
            <p className={`small ${css.byHandMark}`} role="status">
              {appliedText(curriculum)}
            </p>
          )}
          {stoppedText(data?.results) && (
            <p className="small bad" role="status">
              {stoppedText(data?.results)}
            </p>
          )}
          {error && <ErrorState title={data ? "Lessons not refreshed" : "Lessons unavailable"} error={error} />}
          {data && (
            <DataTable
              label="Lessons, in order of prerequisites"
              role="group"
              rows={lessons}
              columns={columns}
              keyOf={({ name }) => name}
              attributes={({ name }) => ({ "data-row": true, "data-lesson": name, "data-opens": true })}
            />
          )}
        </Panel>
      </Guarded>
      {open && (
        <LessonDrawer
          lesson={open}
          evaluation={evaluation}
          revision={revision}
          onChoose={(chosen) => show(open.name, chosen)}
          onClose={() => show()}
        />
      )}
    </Stack>
  );
}

/** Why no lessons are shown: the run has none, or has not started. */
function NoLessons({ run, isKnown }: { run: RunDetail; isKnown: boolean }) {
  if (run.kind === "language" && !isKnown) return <Skeletons heights={[220]} />;
  return (
    <Panel title="Lessons">
      {run.kind === "language" ? (
        <EmptyState
          title="Lessons not started"
          guide="howto/lessons"
          command={trainerCommand(run, location.origin)}
          needs={{ scope: "trainer", run: run.name }}
        >
          Sampling is tracked from the first start, evaluations from the first published version.
        </EmptyState>
      ) : (
        <EmptyState
          title="This run has no lessons"
          action={
            <Button component={AppLink} to="/runs/new?preset=curriculum" variant="default">
              Launch a run with lessons
            </Button>
          }
        >
          Only language runs have lessons; this is {run.kind === "outside" ? "an outside" : "a fleet"} run.
        </EmptyState>
      )}
    </Panel>
  );
}

/** The lessons of a language run: charts of all, and a table with state, share and success of each. */
export function CurriculumTab() {
  const { run, curriculum } = useRun();
  return curriculum ? <Known run={run} curriculum={curriculum} /> : <NoLessons run={run} isKnown={curriculum === null} />;
}
