import { Button, Group, MultiSelect, Text } from "@mantine/core";
import { useState } from "react";
import { useMayOperate } from "@/api/session";
import type { RunDetail } from "@/api/types";
import { RECORDED_IN_EVENTS, ReasonDialog } from "@/components/Dialog";
import { useRequestEvaluations } from "./api";
import { whyNotEvaluate } from "./steering";

type Props = { run: RunDetail; lessons: string[] };

function Evaluate({ run, lessons, onClose }: Props & { onClose: () => void }) {
  const [chosen, setChosen] = useState<string[]>([]);
  const request = useRequestEvaluations(run.name);
  return (
    <ReasonDialog
      title="Evaluate lessons now?"
      asking={request}
      refused="Evaluation not requested"
      recordedIn={RECORDED_IN_EVENTS}
      submit="Evaluate"
      onSubmit={(reason) => request.mutate({ lessons: chosen, reason }, { onSuccess: onClose })}
      onClose={onClose}
    >
      <p className="soft">The next free worker evaluates the lessons at the current version; the schedule is unchanged.</p>
      <MultiSelect
        label="Lessons"
        placeholder={chosen.length > 0 ? undefined : "all unlocked lessons"}
        data={lessons}
        value={chosen}
        onChange={setChosen}
      />
    </ReasonDialog>
  );
}

/** Button that requests an evaluation outside the schedule; disabled with a reason if impossible. */
export function EvaluateNow(props: Props) {
  const why = whyNotEvaluate(props.run, useMayOperate());
  const [isOpen, setOpen] = useState(false);
  return (
    <Group gap="xs">
      {why && (
        <Text id="why-not-evaluate" size="sm" c="var(--ink-faint)">
          {why}
        </Text>
      )}
      <Button
        size="compact-sm"
        variant="default"
        disabled={why !== ""}
        aria-describedby={why ? "why-not-evaluate" : undefined}
        onClick={() => setOpen(true)}
      >
        Evaluate now
      </Button>
      {isOpen && <Evaluate {...props} onClose={() => setOpen(false)} />}
    </Group>
  );
}
