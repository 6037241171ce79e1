import type { LessonRow } from "@/api/types";
import { StateChip } from "@/components/StateChip";
import { Table } from "@/components/Table";
import { number, percent } from "@/format";
import { changeOf, differenceText } from "@/pages/run/evaluations/comparing";
import css from "@/pages/run/evaluations/evaluations.module.css";
import { type Cell, cellText, type Matrix } from "@/pages/run/evaluations/matrix";

const MARKS = { better: "▲ better", worse: "▼ worse" } as const;

function Against({ cell }: { cell: Cell }) {
  if (!cell.against) return null;
  const change = changeOf(cell.against.difference);
  return (
    <span className={`${css.mark} tiny ${change === "alike" ? "soft" : css[change]}`} data-against={change}>
      {differenceText(cell.against.difference)}
    </span>
  );
}

function Shown({ cell, onOpen }: { cell: Cell; onOpen: () => void }) {
  const { row, rate, change } = cell;
  return (
    <button type="button" className={css.open} title={cellText(cell)} onClick={onOpen}>
      <span className="unseen">{cellText(cell)}: </span>
      {rate ? (
        <>
          <span className={css.number}>{percent(rate.estimate)}</span>
          <span className={`${css.mark} tiny faint`}>
            {percent(rate.low)} – {percent(rate.high)}
          </span>
          {change && <span className={`${css.mark} tiny ${css[change]}`}>{MARKS[change]}</span>}
          <Against cell={cell} />
        </>
      ) : (
        <span className={`${css.mark} tiny ${row.state === "lost" || row.state === "failed" ? "bad" : "soft"}`}>
          {{ queued: "◌ queued", leased: "◐ running", failed: "✕ failed", lost: "✕ lost", done: "–" }[row.state]}
        </span>
      )}
    </button>
  );
}

type Props = { matrix: Matrix; lessons: LessonRow[]; onOpen: (lesson: string, evaluation?: string) => void };

/** One row per lesson, one column per version; each cell links to its prompts and answers. */
export function EvaluationTable({ matrix, lessons, onOpen }: Props) {
  const columns = matrix.columns.toReversed(); // the newest stays visible where the table is wider than the page
  return (
    <Table
      label="Success of each lesson at each version"
      role="group"
      columns={[
        "Lesson",
        { label: "Goal", className: "num" },
        ...columns.map(({ epoch, step }) => ({
          label: (
            <>
              {matrix.epochs > 1 && <span className="faint">epoch {epoch} · </span>}version {number(step)}
            </>
          ),
          className: `num ${css.cell}`,
        })),
      ]}
    >
      {lessons.map((lesson) => (
        <tr key={lesson.name} data-row data-evaluated={lesson.name}>
          <td>
            <button type="button" className="row-open" data-open onClick={() => onOpen(lesson.name)}>
              {lesson.name}
            </button>{" "}
            <StateChip state={lesson.status} />
            {lesson.has_regressed && <div className="small held">below its graduation result</div>}
          </td>
          <td className="num soft">{percent(lesson.stop_success)}</td>
          {columns.map(({ key }) => {
            const cell = matrix.cells.get(lesson.name)?.get(key);
            return (
              <td key={key} className={`num ${css.cell}`}>
                {cell ? <Shown cell={cell} onOpen={() => onOpen(lesson.name, cell.row.id)} /> : <span className="faint">·</span>}
              </td>
            );
          })}
        </tr>
      ))}
    </Table>
  );
}
