import { Button, Group } from "@mantine/core";
import { useState } from "react";
import { useMayOperate } from "@/api/session";
import type { LessonRow } from "@/api/types";
import { Age } from "@/components/Age";
import { percent, visible } from "@/format";
import css from "@/pages/run/curriculum/lessons.module.css";
import { GiveBackDialog, StartAgainDialog, SteerDialog } from "@/pages/run/curriculum/SteerDialog";
import { isSteered, isStopped, manualText, nameOf, whyNotSteer } from "@/pages/run/curriculum/steering";
import { EvaluateNow } from "@/pages/run/evaluations/EvaluateNow";
import { useRun } from "@/pages/run/RunContext";

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
export function ManualControl({ lesson }: { lesson: LessonRow }) {
  const { run } = useRun();
  const why = whyNotSteer(run, useMayOperate());
  const [open, setOpen] = useState<"steer" | "back" | "start" | null>(null);
  const close = () => setOpen(null);
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
        {isStopped(lesson) && (
          <Button size="compact-sm" disabled={why !== ""} onClick={() => setOpen("start")}>
            Start again…
          </Button>
        )}
        <Button
          size="compact-sm"
          variant="default"
          disabled={why !== ""}
          aria-describedby={why ? "why-not-steer" : undefined}
          onClick={() => setOpen("steer")}
        >
          Lock, unlock or change weight…
        </Button>
        {isSteered(lesson) && !isStopped(lesson) && (
          <Button size="compact-sm" variant="default" disabled={why !== ""} onClick={() => setOpen("back")}>
            Return to the curriculum…
          </Button>
        )}
        {!why && <EvaluateNow run={run} lessons={[lesson.name]} chosen={lesson.name} />}
      </Group>
      {open === "steer" && <SteerDialog run={run.name} lesson={lesson} onClose={close} />}
      {open === "start" && <StartAgainDialog run={run.name} lesson={lesson} onClose={close} />}
      {open === "back" && <GiveBackDialog run={run.name} lesson={lesson} onClose={close} />}
    </section>
  );
}
