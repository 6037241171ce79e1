import { Button, Group, MultiSelect } from "@mantine/core";
import { useState } from "react";
import { useMayOperate } from "@/api/session";
import type { RunDetail } from "@/api/types";
import { RECORDED_IN_EVENTS, ReasonDialog } from "@/components/Dialog";
import { useRequestEvaluations } from "./api";
import { whyNotEvaluate } from "./steering";

function Evaluate({ run, lessons, about, onClose }: { run: string; lessons: string[]; about?: string; onClose: () => void }) {
  const [chosen, setChosen] = useState<string[]>(about ? [about] : []);
  const request = useRequestEvaluations(run);
  return (
    <ReasonDialog
      title={about ? `Evaluate ${about} now?` : "Evaluate lessons now?"}
      asking={request}
      refused="Evaluation not requested"
      recordedIn={RECORDED_IN_EVENTS}
      submit="Evaluate"
      onSubmit={(reason) => request.mutate({ lessons: chosen, reason }, { onSuccess: onClose })}
      onClose={onClose}
    >
      <p className="soft">
        The next free worker evaluates the lessons at the current version, before any sampling. Queued evaluations are not duplicated, and
        the schedule is unchanged.
      </p>
      {!about && (
        <MultiSelect
          label="Lessons"
          placeholder={chosen.length > 0 ? undefined : "all unlocked lessons"}
          data={lessons}
          value={chosen}
          onChange={setChosen}
        />
      )}
    </ReasonDialog>
  );
}

type EvaluateProps = {
  run: RunDetail;
  lessons: string[];
  /** The lesson to evaluate, where the button belongs to one lesson. */
  about?: string;
};

/** Button that requests an evaluation outside the schedule; disabled with a reason if impossible. */
export function EvaluateNow({ run, lessons, about }: EvaluateProps) {
  const why = whyNotEvaluate(run, useMayOperate());
  const [isOpen, setOpen] = useState(false);
  return (
    <Group gap="xs">
      {why && (
        <span id="why-not-evaluate" className="small faint">
          {why}
        </span>
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
      {isOpen && <Evaluate run={run.name} lessons={lessons} about={about} onClose={() => setOpen(false)} />}
    </Group>
  );
}
