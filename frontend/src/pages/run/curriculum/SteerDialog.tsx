import { NumberInput, Radio, Stack } from "@mantine/core";
import { useState } from "react";
import type { LessonRow } from "@/api/types";
import { ReasonDialog } from "@/components/ReasonDialog";
import { useSteerLesson } from "@/pages/run/curriculum/api";
import { type Choice, effectOf } from "@/pages/run/curriculum/steering";

const RECORDED_IN_HISTORY = "Recorded with your name in the lesson's history and the run's events.";
const REFUSED = "Lesson not changed";
const CHOICES: [Choice, string, string][] = [
  ["", "Automatic", "The curriculum unlocks, graduates and regresses the lesson by its rules."],
  ["locked", "Locked", "Never sampled, regardless of its rules."],
  ["active", "Unlocked", "Sampled and never graduated, regardless of its rules."],
];

type Props = { run: string; lesson: LessonRow; onClose: () => void };

/** Override the curriculum for one lesson, with a reason; shows the effect first. */
export function SteerDialog({ run, lesson, onClose }: Props) {
  const [hold, setHold] = useState<Choice>(lesson.hold === "stopped" ? "" : lesson.hold);
  const [factor, setFactor] = useState<number | string>(lesson.weight_factor);
  const steer = useSteerLesson(run);
  const wanted = typeof factor === "number" ? { hold, weight_factor: factor } : null;
  const isNew = wanted !== null && (hold !== lesson.hold || factor !== lesson.weight_factor);
  return (
    <ReasonDialog
      title={`Steer ${lesson.name}`}
      asking={steer}
      refused={REFUSED}
      submit="Steer"
      recordedIn={RECORDED_IN_HISTORY}
      isReady={isNew}
      onSubmit={(reason) => wanted && steer.mutate({ lesson: lesson.name, ...wanted, reason }, { onSuccess: onClose })}
      onClose={onClose}
    >
      <Radio.Group label="State" value={hold || "ruled"} onChange={(value) => setHold(value === "ruled" ? "" : (value as Choice))}>
        <Stack gap="xs" mt="xs">
          {CHOICES.map(([value, label, description]) => (
            <Radio key={value} value={value || "ruled"} label={label} description={description} />
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
      <p className="soft" role="status">
        {wanted ? effectOf(lesson, wanted) : "Enter a number from 0.01 to 100."}
      </p>
    </ReasonDialog>
  );
}

/** Start a lesson again that a failure has stopped. */
export function StartAgainDialog({ run, lesson, onClose }: Props) {
  const steer = useSteerLesson(run);
  const { name, weight_factor } = lesson;
  return (
    <ReasonDialog
      title={`Start ${name} again`}
      asking={steer}
      refused={REFUSED}
      submit="Start again"
      recordedIn={RECORDED_IN_HISTORY}
      onSubmit={(reason) => steer.mutate({ lesson: name, hold: "", weight_factor, reason }, { onSuccess: onClose })}
      onClose={onClose}
    >
      <p className="soft">
        The lesson returns to its state before the failure, and its open evaluations continue. It stops again if the failure is not
        repaired.
      </p>
    </ReasonDialog>
  );
}

/** End the manual override of a lesson. */
export function GiveBackDialog({ run, lesson, onClose }: Props) {
  const steer = useSteerLesson(run);
  return (
    <ReasonDialog
      title={`Return ${lesson.name} to the curriculum`}
      asking={steer}
      refused={REFUSED}
      submit="Return"
      recordedIn={RECORDED_IN_HISTORY}
      onSubmit={(reason) => steer.mutate({ lesson: lesson.name, hold: "", weight_factor: 1, reason }, { onSuccess: onClose })}
      onClose={onClose}
    >
      <p className="soft">
        The lesson follows its rules again. It returns to its state before the override and is re-evaluated immediately with the
        measurements since.
      </p>
    </ReasonDialog>
  );
}
