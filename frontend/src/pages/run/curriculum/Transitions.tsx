import { useQuery } from "@tanstack/react-query";
import type { LessonChange } from "@/api/types";
import { Age } from "@/components/Age";
import { ErrorState } from "@/components/ErrorState";
import { Panel } from "@/components/Panel";
import { policyStep, visible } from "@/format";
import { lessonMovesQuery, MOVES_SHOWN } from "@/pages/run/curriculum/api";
import { moveOf } from "@/pages/run/curriculum/curriculum";
import { nameOf } from "@/pages/run/curriculum/steering";

function Move({ row, onOpen }: { row: LessonChange; onOpen: (name: string) => void }) {
  return (
    <li data-move={row.lesson}>
      <button type="button" className="link-button" onClick={() => onOpen(row.lesson)}>
        {row.lesson}
      </button>{" "}
      <b>{moveOf(row)}</b>{" "}
      <span className="small soft">
        {row.actor !== "curriculum" && <b>by {nameOf(row.actor)} </b>}
        at version {policyStep(row.policy_step)}
        {row.epoch > 1 && ` of epoch ${row.epoch}`}, <Age at={row.at} suffix=" ago" />
      </span>
      <div className="small">{visible(row.reason)}</div>
    </li>
  );
}

type Props = { run: string; revision: number; onOpen: (name: string) => void };

/** Lesson transitions with their reasons, newest first: unlocked, graduated, regressed, steered. */
export function Transitions({ run, revision, onOpen }: Props) {
  const { data, error } = useQuery(lessonMovesQuery(run, revision));
  if (!data && !error) return null;
  return (
    <Panel
      title="Transitions"
      note={`newest first${data && data.length >= MOVES_SHOWN ? `, last ${MOVES_SHOWN}` : ""}`}
      className="span-12"
    >
      {error && <ErrorState title={data ? "Transitions not refreshed" : "Transitions unavailable"} error={error} />}
      {!data ? null : data.length === 0 ? (
        <p className="faint">No transitions yet. Each transition is listed with its reason.</p>
      ) : (
        <ol className="lesson-history" aria-label="Transitions, newest first">
          {data.map((row) => (
            <Move key={row.id} row={row} onOpen={onOpen} />
          ))}
        </ol>
      )}
    </Panel>
  );
}
