import { Button, Stack, Text, UnstyledButton } from "@mantine/core";
import { useThrottledValue } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { type ReactNode, useMemo, useState } from "react";
import type { CurriculumPart, LessonRow, RunDetail } from "@/api/types";
import type { Ends } from "@/charts/names";
import { StateChip } from "@/components/chips";
import { type Column, DataTable } from "@/components/DataTable";
import { Age, AppLink } from "@/components/inline";
import { onDemand } from "@/components/onDemand";
import { EmptyState, Guarded, PANEL_GRID, Panel, Skeletons } from "@/components/panels";
import { count, counted, number, percent, policyStep, visible } from "@/format";
import { useRun, useRunPart } from "@/pages/run/RunContext";
import { RunWall } from "@/pages/run/RunWall";
import { trainerCommand } from "@/runs/words";
import { lessonsQuery } from "./api";
import { LOOK_AT_MOST_EVERY_MS, lessonPanels, linedOf, summaryOf } from "./curriculum";
import { EvaluateNow } from "./EvaluateNow";
import { appliedText, isStopped, manualText } from "./steering";

const LessonDrawer = onDemand(() => import("./LessonDrawer"), "default");

function MadeByHand({ children }: { children: ReactNode }) {
  return (
    <Text size="sm" c="var(--accent)" className="nowrap">
      {children}
    </Text>
  );
}

const columnsOf = (onOpen: (lesson: string) => void): Column<LessonRow>[] => [
  {
    label: "Lesson",
    cell: ({ name, spec, requires, stop_success }) => (
      <>
        <UnstyledButton data-open onClick={() => onOpen(name)}>
          {name}
        </UnstyledButton>
        <div className="small faint">
          {spec} · goal {percent(stop_success)}
          {requires.length > 0 && ` · after ${requires.map(({ lesson }) => lesson).join(", ")}`}
        </div>
      </>
    ),
  },
  {
    label: "State",
    value: ({ status }) => status,
    cell: (row) => (
      <>
        <StateChip state={row.status} since={row.changed_at} />
        {isStopped(row) && <div className="small bad">stopped after a failure</div>}
        {row.hold && !isStopped(row) && <MadeByHand>{manualText({ ...row, weight_factor: 1 })}</MadeByHand>}
        {row.has_regressed && <div className="small held">below its graduation result</div>}
      </>
    ),
  },
  {
    label: "Share",
    title: "Share of tasks",
    isNumber: true,
    value: ({ probability }) => probability,
    cell: ({ probability, weight_factor }) => (
      <>
        {percent(probability)}
        {weight_factor !== 1 && <MadeByHand>× {number(weight_factor)} manual</MadeByHand>}
      </>
    ),
  },
  {
    label: "Success",
    title: "In training, as the strategy uses it",
    isNumber: true,
    value: ({ samples, success }) => (samples > 0 ? success : null),
    cell: ({ samples, success }) => (samples > 0 ? percent(success) : "–"),
  },
  { label: "Samples", isNumber: true, value: ({ samples }) => samples, cell: ({ samples }) => count(samples) },
  {
    label: "Evaluation",
    title: "Success, with its interval",
    value: ({ evaluation }) => evaluation?.figures?.success.estimate,
    cell: ({ evaluation }) => {
      if (!evaluation?.figures) return <span className="faint">not evaluated yet</span>;
      const { estimate, low, high } = evaluation.figures.success;
      return (
        <>
          {percent(estimate)}{" "}
          <span className="small faint nowrap">
            {percent(low)} – {percent(high)}
          </span>
          <div className="small faint nowrap">
            at version {policyStep(evaluation.policy_step)}, <Age at={evaluation.finished_at} suffix=" ago" />
          </div>
        </>
      );
    },
  },
  {
    label: "Why",
    className: "small anywhere",
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
            <Text size="sm" c="var(--accent)" role="status">
              {appliedText(curriculum)}
            </Text>
          )}
          <DataTable
            label="Lessons, in order of prerequisites"
            role="group"
            rows={data?.results}
            error={error}
            columns={columnsOf(show)}
            keyOf={({ name }) => name}
            attributes={({ name }) => ({ "data-row": true, "data-lesson": name, "data-opens": true })}
          />
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
  const { run } = useRun();
  const curriculum = useRunPart("curriculum");
  return curriculum ? <Known run={run} curriculum={curriculum} /> : <NoLessons run={run} isKnown={curriculum === null} />;
}
