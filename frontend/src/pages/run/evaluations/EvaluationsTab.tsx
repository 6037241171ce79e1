import "@/pages/run/curriculum/lessons.css";
import { useThrottledValue } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { lazy, Suspense } from "react";
import { allEvaluationsQuery, lessonsQuery } from "@/api/lessons";
import type { CurriculumPart, EvaluationRow, LessonRow } from "@/api/types";
import { EmptyState } from "@/components/EmptyState";
import { ErrorState } from "@/components/ErrorState";
import { Panel } from "@/components/Panel";
import { StateChip } from "@/components/StateChip";
import { number, percent } from "@/format";
import { LOOK_AT_MOST_EVERY_MS } from "@/pages/run/curriculum/curriculum";
import { EvaluateNow } from "@/pages/run/evaluations/EvaluateNow";
import css from "@/pages/run/evaluations/evaluations.module.css";
import { type Cell, COLUMNS, type Matrix, matrixOf, wordsOfCell } from "@/pages/run/evaluations/matrix";
import { useRun } from "@/pages/run/RunContext";
import { NoLessons } from "@/pages/run/curriculum/NoLessons";
import { trainerCommand } from "@/pages/run/words";

const LessonDrawer = lazy(() => import("@/pages/run/curriculum/LessonDrawer"));
const MARKS = { better: "▲ better", worse: "▼ worse" } as const;

function Shown({ cell, onOpen }: { cell: Cell; onOpen: () => void }) {
  const { row, change } = cell;
  const success = row.figures?.success;
  return (
    <button type="button" className={css.open} title={wordsOfCell(cell)} onClick={onOpen}>
      <span className="unseen">{wordsOfCell(cell)}: </span>
      {success ? (
        <>
          <span className={css.number}>{percent(success.estimate)}</span>
          <span className={`${css.mark} tiny faint`}>
            {percent(success.low)} – {percent(success.high)}
          </span>
          {change && <span className={`${css.mark} tiny ${css[change]}`}>{MARKS[change]}</span>}
        </>
      ) : (
        <span className={`${css.mark} tiny ${row.state === "lost" ? "bad" : "soft"}`}>
          {{ queued: "◌ waits", leased: "◐ under way", lost: "✕ lost", done: "–" }[row.state]}
        </span>
      )}
    </button>
  );
}

type TableProps = { matrix: Matrix; lessons: LessonRow[]; onOpen: (lesson: string) => void };

function Table({ matrix, lessons, onOpen }: TableProps) {
  return (
    <div className="table-scroll" tabIndex={0} role="group" aria-label="Success of each lesson at each version">
      <table className="table">
        <thead>
          <tr>
            <th scope="col">Lesson</th>
            <th scope="col" className="num">
              Learnt at
            </th>
            {matrix.columns.map(({ key, epoch, step }) => (
              <th key={key} scope="col" className={`num ${css.cell}`}>
                {matrix.epochs > 1 && <span className="faint">epoch {epoch} · </span>}version {number(step)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {lessons.map((lesson) => (
            <tr key={lesson.name} data-evaluated={lesson.name}>
              <td>
                <button type="button" className="lesson-name" onClick={() => onOpen(lesson.name)}>
                  {lesson.name}
                </button>{" "}
                <StateChip state={lesson.status} />
                {lesson.has_regressed && <div className="small held">worse than when it graduated</div>}
              </td>
              <td className="num soft">{percent(lesson.stop_success)}</td>
              {matrix.columns.map(({ key }) => {
                const cell = matrix.cells.get(lesson.name)?.get(key);
                return (
                  <td key={key} className={`num ${css.cell}`}>
                    {cell ? <Shown cell={cell} onOpen={() => onOpen(lesson.name)} /> : <span className="faint">·</span>}
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

type KnownProps = { curriculum: CurriculumPart };

function noteOf(rows: EvaluationRow[], { evaluations_open: open }: CurriculumPart): string {
  const waiting = open > 0 ? `, ${open} to come` : "";
  return `success and its interval, newest ${COLUMNS} versions; marked where chance does not explain a change${rows.length > 0 ? waiting : ""}`;
}

function Known({ curriculum }: KnownProps) {
  const { run } = useRun();
  const { lesson: open } = useSearch({ from: "/shell/runs/$name/evaluations" });
  const navigate = useNavigate({ from: "/runs/$name/evaluations" });
  const revision = useThrottledValue(curriculum.revision, LOOK_AT_MOST_EVERY_MS);
  const lessons = useQuery(lessonsQuery(run.name, revision));
  const evaluations = useQuery(allEvaluationsQuery(run.name, revision));
  const show = (lesson: string | undefined) => void navigate({ search: { lesson }, replace: true });
  const rows = evaluations.data ?? [];
  const shown = lessons.data?.results ?? [];
  const opened = shown.find(({ name }) => name === open);
  const error = lessons.error ?? evaluations.error;
  return (
    <Panel
      title="Evaluations"
      note={noteOf(rows, curriculum)}
      aside={<EvaluateNow run={run} lessons={shown.map(({ name }) => name)} />}
      className="span-12"
    >
      {error ? (
        <ErrorState title="Evaluations cannot be shown" error={error} />
      ) : evaluations.data && rows.length === 0 ? (
        <EmptyState title="Nothing was evaluated yet" command={run.policy_step < 0 ? trainerCommand(run, location.origin) : undefined} needs={{ scope: "trainer", run: run.name }}>
          {run.policy_step < 0
            ? "Lessons are evaluated from the first version on, always with the same problems. It comes from the trainer."
            : "The next free worker evaluates every unlocked lesson, always with the same problems."}
        </EmptyState>
      ) : (
        <Table matrix={matrixOf(rows)} lessons={shown} onOpen={show} />
      )}
      {opened && (
        <Suspense fallback={null}>
          <LessonDrawer run={run.name} lesson={opened} revision={revision} onClose={() => show(undefined)} />
        </Suspense>
      )}
    </Panel>
  );
}

/** How well each lesson was done at each version. */
export function EvaluationsTab() {
  const { run, curriculum } = useRun();
  return <div className="charts">{curriculum ? <Known curriculum={curriculum} /> : <NoLessons run={run} isKnown={curriculum === null} />}</div>;
}
