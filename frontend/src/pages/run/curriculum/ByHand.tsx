import { Button, Group } from "@mantine/core";
import { useState } from "react";
import { useSteerLesson } from "@/api/lessons";
import { useMayOperate } from "@/api/session";
import type { LessonRow } from "@/api/types";
import { Age } from "@/components/Age";
import { ErrorState } from "@/components/ErrorState";
import { percent, visible } from "@/format";
import { SteerDialog } from "@/pages/run/curriculum/SteerDialog";
import { handWords, isByHand, nameOf, whyNotSteer } from "@/pages/run/curriculum/steering";
import { EvaluateNow } from "@/pages/run/evaluations/EvaluateNow";
import { useRun } from "@/pages/run/RunContext";

function Who({ lesson }: { lesson: LessonRow }) {
  if (!isByHand(lesson)) return <>The curriculum decides alone: {percent(lesson.probability)} of the next tasks are of it.</>;
  return (
    <>
      <b>{handWords(lesson)}</b> by {nameOf(lesson.steered_by)}, <Age at={lesson.steered_at} suffix=" ago" />
      {lesson.steered_reason && <>: {visible(lesson.steered_reason)}</>}. {percent(lesson.probability)} of the next tasks are of it.
    </>
  );
}

/** What people have decided about a lesson, and the ways to decide more: steer, give back, evaluate. */
export function ByHand({ lesson }: { lesson: LessonRow }) {
  const { run } = useRun();
  const why = whyNotSteer(run, useMayOperate());
  const [isOpen, setOpen] = useState(false);
  const giveBack = useSteerLesson(run.name);
  return (
    <section aria-label="By hand" className="by-hand" data-by-hand={isByHand(lesson) || undefined}>
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
        <Button size="compact-sm" variant="default" disabled={why !== ""} aria-describedby={why ? "why-not-steer" : undefined} onClick={() => setOpen(true)}>
          Lock, unlock or re-weigh…
        </Button>
        {isByHand(lesson) && (
          <Button
            size="compact-sm"
            variant="default"
            disabled={why !== ""}
            loading={giveBack.isPending}
            title="Its rules hold again from now on; it is judged at once."
            onClick={() => giveBack.mutate({ lesson: lesson.name, hold: "", weight_factor: 1, reason: "" })}
          >
            Give it back to the curriculum
          </Button>
        )}
        {!why && <EvaluateNow run={run} lessons={[lesson.name]} chosen={lesson.name} />}
      </Group>
      {giveBack.error && <ErrorState title="The lesson stays as it is" error={giveBack.error} />}
      {isOpen && <SteerDialog run={run.name} lesson={lesson} onClose={() => setOpen(false)} />}
    </section>
  );
}
