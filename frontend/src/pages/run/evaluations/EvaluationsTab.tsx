import { useThrottledValue } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { runQuery } from "@/api/runs";
import type { CurriculumPart, EvaluationRow, RunDetail } from "@/api/types";
import { rolldeckCommand } from "@/components/commandToken";
import { EmptyState } from "@/components/EmptyState";
import { ErrorState } from "@/components/ErrorState";
import { onDemand } from "@/components/onDemand";
import { Panel } from "@/components/Panel";
import { Panels } from "@/components/Panels";
import { visible } from "@/format";
import { allEvaluationsQuery, lessonsQuery } from "@/pages/run/curriculum/api";
import { LOOK_AT_MOST_EVERY_MS } from "@/pages/run/curriculum/curriculum";
import { NoLessons } from "@/pages/run/curriculum/NoLessons";
import { ksOf, otherProblems } from "@/pages/run/evaluations/comparing";
import { EvaluateNow } from "@/pages/run/evaluations/EvaluateNow";
import { EvaluationTable } from "@/pages/run/evaluations/EvaluationTable";
import { MatrixControls } from "@/pages/run/evaluations/MatrixControls";
import { COLUMNS, matrixOf } from "@/pages/run/evaluations/matrix";
import { useRun } from "@/pages/run/RunContext";
import { trainerCommand } from "@/runs/words";

const LessonDrawer = onDemand(() => import("@/pages/run/curriculum/LessonDrawer"), "default");

function noteOf(rows: EvaluationRow[], { evaluations_open: open }: CurriculumPart): string {
  const waiting = open > 0 ? `, ${open} pending` : "";
  return `with intervals, ${COLUMNS} newest versions, newest first; significant changes are marked${rows.length > 0 ? waiting : ""}`;
}

/** The baseline run's evaluations and configuration. */
function useBaseline(run: RunDetail, name: string | undefined) {
  const chosen = useQuery({ ...runQuery(name ?? ""), enabled: name !== undefined });
  const rows = useQuery({ ...allEvaluationsQuery(name ?? "", 0), enabled: name !== undefined });
  const others = name ? otherProblems(run.config, chosen.data?.config) : [];
  return {
    rows: name ? rows.data?.filter(({ lesson }) => !others.includes(lesson)) : undefined,
    others,
    error: name ? (chosen.error ?? rows.error) : null,
  };
}

function Nothing({ run }: { run: RunDetail }) {
  const isWithout = run.policy_step < 0;
  return (
    <EmptyState
      title="No evaluations yet"
      command={isWithout ? trainerCommand(run, location.origin) : rolldeckCommand(`api POST runs/${run.name}/evaluations`)}
      needs={{ scope: isWithout ? "trainer" : "user", run: run.name }}
    >
      {isWithout
        ? "Lessons are evaluated from the first published version on, always with the same problems."
        : "The next free worker evaluates every unlocked lesson, always with the same problems."}
    </EmptyState>
  );
}

function Known({ curriculum }: { curriculum: CurriculumPart }) {
  const { run } = useRun();
  const search = useSearch({ from: "/shell/runs/$name/evaluations" });
  const navigate = useNavigate({ from: "/runs/$name/evaluations" });
  const revision = useThrottledValue(curriculum.revision, LOOK_AT_MOST_EVERY_MS);
  const lessons = useQuery(lessonsQuery(run.name, revision));
  const evaluations = useQuery(allEvaluationsQuery(run.name, revision));
  const baseline = useBaseline(run, search.baseline);
  const change = (changed: Partial<typeof search>) => void navigate({ search: { ...search, ...changed }, replace: true });
  const rows = evaluations.data ?? [];
  const shown = lessons.data?.results ?? [];
  const opened = shown.find(({ name }) => name === search.lesson);
  const error = lessons.error ?? evaluations.error;
  const ks = ksOf(rows);
  const k = search.k && ks.includes(search.k) ? search.k : 1;
  return (
    <Panel
      title="Evaluations"
      note={noteOf(rows, curriculum)}
      aside={<EvaluateNow run={run} lessons={shown.map(({ name }) => name)} />}
      className="span-12"
    >
      {error && <ErrorState title={evaluations.data ? "Evaluations not refreshed" : "Evaluations unavailable"} error={error} />}
      {error && !evaluations.data ? null : evaluations.data && rows.length === 0 ? (
        <Nothing run={run} />
      ) : (
        <>
          <MatrixControls
            run={run.name}
            ks={ks}
            k={k}
            baseline={search.baseline}
            onK={(each) => change({ k: each === 1 ? undefined : each })}
            onBaseline={(name) => change({ baseline: name })}
          />
          {baseline.error && <ErrorState title="Baseline unavailable" error={baseline.error} />}
          {search.baseline && (
            <p className="small soft" role="status">
              Compared with {visible(search.baseline)}: difference in percentage points with its interval; ▲ better, ▼ worse, ≈ not
              significant.
              {baseline.others.length > 0 && ` Not compared because the problems differ: ${baseline.others.join(", ")}.`}{" "}
              <button type="button" className="link-button" onClick={() => change({ baseline: undefined })}>
                Remove baseline
              </button>
            </p>
          )}
          <EvaluationTable
            matrix={matrixOf(rows, { k, baseline: baseline.rows })}
            lessons={shown}
            onOpen={(lesson, evaluation) => change({ lesson, evaluation })}
          />
        </>
      )}
      {opened && (
        <LessonDrawer
          run={run.name}
          lesson={opened}
          evaluation={search.evaluation}
          revision={revision}
          onClose={() => change({ lesson: undefined, evaluation: undefined })}
        />
      )}
    </Panel>
  );
}

/** The success of each lesson at each version. */
export function EvaluationsTab() {
  const { run, curriculum } = useRun();
  return <Panels>{curriculum ? <Known curriculum={curriculum} /> : <NoLessons run={run} isKnown={curriculum === null} />}</Panels>;
}
