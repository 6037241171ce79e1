import { NumberInput, Radio, Stack } from "@mantine/core";
import { useState } from "react";
import { useSteerLesson } from "@/api/lessons";
import type { LessonRow } from "@/api/types";
import { ReasonDialog } from "@/components/ReasonDialog";
import { effectOf, type Hold } from "@/pages/run/curriculum/steering";

const KEPT_IN = "Kept with your name in the lesson's history and the run's events.";
const REFUSED = "The lesson stays as it is";
const CHOICES: [Hold, string, string][] = [
  ["", "The curriculum decides", "It unlocks, graduates and comes back by its rules."],
  ["locked", "Hold it locked", "It is not sampled, whatever its rule says."],
  ["active", "Hold it unlocked", "It is sampled and does not graduate, whatever its rule says."],
];

type Props = { run: string; lesson: LessonRow; onClose: () => void };

/** Overrule the curriculum about one lesson, with a reason; what that does is written out first. */
export function SteerDialog({ run, lesson, onClose }: Props) {
  const [hold, setHold] = useState<Hold>(lesson.hold);
  const [factor, setFactor] = useState<number | string>(lesson.weight_factor);
  const steer = useSteerLesson(run);
  const wanted = typeof factor === "number" ? { hold, weight_factor: factor } : null;
  const isNew = wanted !== null && (hold !== lesson.hold || factor !== lesson.weight_factor);
  return (
    <ReasonDialog
      title={`Steer ${lesson.name}`}
      asking={steer}
      refused={REFUSED}
      submit="Steer it"
      keptIn={KEPT_IN}
      isReady={isNew}
      onSubmit={(reason) => wanted && steer.mutate({ lesson: lesson.name, ...wanted, reason }, { onSuccess: onClose })}
      onClose={onClose}
    >
      <Radio.Group label="Where it stands" value={hold || "ruled"} onChange={(value) => setHold(value === "ruled" ? "" : (value as Hold))}>
        <Stack gap="xs" mt="xs">
          {CHOICES.map(([value, label, description]) => (
            <Radio key={value} value={value || "ruled"} label={label} description={description} />
          ))}
        </Stack>
      </Radio.Group>
      <NumberInput
        mt="md"
        label="Times as often"
        description="As the curriculum draws it, beside the others. 1: as often as it says."
        value={factor}
        min={0.01}
        max={100}
        step={0.5}
        disabled={hold === "locked"}
        onChange={setFactor}
      />
      <p className="soft" role="status">
        {wanted ? effectOf(lesson, wanted) : "Write a number from 0.01 to 100."}
      </p>
    </ReasonDialog>
  );
}

/** Let the curriculum decide about a lesson again. */
export function GiveBackDialog({ run, lesson, onClose }: Props) {
  const steer = useSteerLesson(run);
  return (
    <ReasonDialog
      title={`Give ${lesson.name} back to the curriculum`}
      asking={steer}
      refused={REFUSED}
      submit="Give it back"
      keptIn={KEPT_IN}
      onSubmit={(reason) => steer.mutate({ lesson: lesson.name, hold: "", weight_factor: 1, reason }, { onSuccess: onClose })}
      onClose={onClose}
    >
      <p className="soft">
        Its rules hold again from now on. It returns to where the curriculum had it, and is judged at once by what was measured meanwhile.
      </p>
    </ReasonDialog>
  );
}
