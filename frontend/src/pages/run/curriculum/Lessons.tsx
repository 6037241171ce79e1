import type { CurriculumPart, LessonRow } from "@/api/types";
import { Age } from "@/components/Age";
import { ErrorState } from "@/components/ErrorState";
import { Hint } from "@/components/Hint";
import { Panel } from "@/components/Panel";
import { StateChip } from "@/components/StateChip";
import { type Heading, Table } from "@/components/Table";
import { count, number, percent, policyStep, visible } from "@/format";
import { barOf, type Interval, intervalText, summaryOf } from "@/pages/run/curriculum/curriculum";
import css from "@/pages/run/curriculum/lessons.module.css";
import { appliedText, isStopped, manualText, stoppedText } from "@/pages/run/curriculum/steering";

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

function Line({ row, onOpen }: { row: LessonRow; onOpen: () => void }) {
  const figures = row.evaluation?.figures;
  return (
    <tr data-row data-lesson={row.name} className="opens">
      <td className={css.lessonWhat}>
        <button type="button" className="row-open" data-open onClick={onOpen}>
          {row.name}
        </button>
        <div className="small faint">
          {row.spec}
          {row.requires.length > 0 && ` · after ${row.requires.map(({ lesson }) => lesson).join(", ")}`}
        </div>
      </td>
      <td>
        <StateChip state={row.status} since={row.changed_at} />
        {isStopped(row) && <div className="small bad">stopped after a failure</div>}
        {row.hold && !isStopped(row) && <div className={`small ${css.byHandMark}`}>{manualText({ ...row, weight_factor: 1 })}</div>}
        {row.has_regressed && <div className="small held">below its graduation result</div>}
      </td>
      <td>
        {figures ? <SuccessBar success={figures.success} goal={row.stop_success} /> : <span className="faint">not evaluated yet</span>}
      </td>
      <td className="num">{figures ? percent(figures.success.estimate) : "–"}</td>
      <td className="num">
        {percent(row.probability)}
        {row.weight_factor !== 1 && <div className={`small ${css.byHandMark} nowrap`}>{`× ${number(row.weight_factor)} manual`}</div>}
      </td>
      <td className="num">{count(row.samples)}</td>
      <td className="num">{percent(row.zero_variance_share)}</td>
      <td className="num">
        {row.evaluation ? policyStep(row.evaluation.policy_step) : "–"}
        {row.evaluation?.finished_at && (
          <div className="small faint nowrap">
            <Age at={row.evaluation.finished_at} suffix=" ago" />
          </div>
        )}
      </td>
      <td className={`small ${css.lessonWhy}`}>
        {visible(row.reason)}
        {row.errors > 0 && <div className="bad">{`${count(row.errors)} × ${visible(row.last_error)}`}</div>}
      </td>
    </tr>
  );
}

const COLUMNS: Heading[] = [
  { label: "Lesson" },
  "State",
  "Evaluation success",
  { label: <span className="unseen">Success rate</span>, className: "num" },
  { label: "Next", className: "num" },
  { label: "Samples", className: "num" },
  { label: "Zero variance", className: "num" },
  { label: "At version", className: "num" },
  "Why",
];

function LessonTable({ rows, onOpen }: { rows: LessonRow[]; onOpen: (name: string) => void }) {
  return (
    <Table label="Lessons, in order of prerequisites" role="group" columns={COLUMNS}>
      {rows.map((row) => (
        <Line key={row.name} row={row} onOpen={() => onOpen(row.name)} />
      ))}
    </Table>
  );
}

type Props = { curriculum: CurriculumPart; lessons: LessonRow[] | undefined; error: Error | null; onOpen: (name: string) => void };

/** All lessons of a language run: state, success rate and reason. */
export function Lessons({ curriculum, lessons, error, onOpen }: Props) {
  return (
    <Panel
      title="Curriculum"
      note={summaryOf(curriculum, lessons)}
      aside={<span className="small faint">{curriculum.strategy}</span>}
      className="span-12"
    >
      {appliedText(curriculum) && (
        <p className={`small ${css.byHandMark}`} role="status">
          {appliedText(curriculum)}
        </p>
      )}
      {stoppedText(lessons) && (
        <p className="small bad" role="status">
          {stoppedText(lessons)}
        </p>
      )}
      {error && <ErrorState title={lessons ? "Lessons not refreshed" : "Lessons unavailable"} error={error} />}
      {lessons && <LessonTable rows={lessons} onOpen={onOpen} />}
    </Panel>
  );
}
