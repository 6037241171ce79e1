import { Box, Button, Group, Modal, NumberInput, Radio, Stack, TextInput } from "@mantine/core";
import { useState } from "react";
import { useSteerLesson } from "@/api/lessons";
import type { LessonRow } from "@/api/types";
import { ErrorState } from "@/components/ErrorState";
import { effectOf, type Hold } from "@/pages/run/curriculum/steering";

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
  const [reason, setReason] = useState("");
  const steer = useSteerLesson(run);
  const wanted = typeof factor === "number" ? { hold, weight_factor: factor } : null;
  const isNew = wanted !== null && (hold !== lesson.hold || factor !== lesson.weight_factor);
  return (
    <Modal opened onClose={onClose} title={`Steer ${lesson.name}`}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (wanted && isNew) steer.mutate({ lesson: lesson.name, ...wanted, reason }, { onSuccess: onClose });
        }}
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
        <TextInput
          label="Reason"
          description="Kept with your name in the lesson's history and the run's events."
          value={reason}
          maxLength={2000}
          onChange={(event) => setReason(event.currentTarget.value)}
        />
        {steer.error && (
          <Box mt="md">
            <ErrorState title="The lesson stays as it is" error={steer.error} />
          </Box>
        )}
        <Group justify="flex-end" mt="lg">
          <Button variant="default" onClick={onClose}>
            Leave it as it is
          </Button>
          <Button type="submit" loading={steer.isPending} disabled={!isNew}>
            Steer it
          </Button>
        </Group>
      </form>
    </Modal>
  );
}
