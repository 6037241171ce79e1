import { Button, Group, MultiSelect } from "@mantine/core";
import { useState } from "react";
import { useMayOperate } from "@/api/session";
import type { RunDetail } from "@/api/types";
import { ReasonDialog } from "@/components/ReasonDialog";
import { RECORDED_IN_EVENTS } from "@/components/recordedIn";
import { useRequestEvaluations } from "@/pages/run/curriculum/api";
import { unavailableReason } from "@/pages/run/evaluations/availability";

type Props = {
  run: RunDetail;
  lessons: string[];
  /** The lesson to evaluate, where the button belongs to one lesson. */
  chosen?: string;
};

/** Button that requests an evaluation outside the schedule; disabled with a reason if impossible. */
export function EvaluateNow({ run, lessons, chosen }: Props) {
  const why = unavailableReason(run, useMayOperate());
  if (!why) return <Asking run={run.name} lessons={lessons} about={chosen} />;
  return (
    <Group gap="xs">
      <span id="why-not-evaluate" className="small faint">
        {why}
      </span>
      <Button size="compact-sm" variant="default" disabled aria-describedby="why-not-evaluate">
        Evaluate now
      </Button>
    </Group>
  );
}

function Asking({ run, lessons, about }: { run: string; lessons: string[]; about: string | undefined }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <Button size="compact-sm" variant="default" onClick={() => setOpen(true)}>
        Evaluate now
      </Button>
      {isOpen && <Ask run={run} lessons={lessons} about={about} onClose={() => setOpen(false)} />}
    </>
  );
}

function Ask({ run, lessons, about, onClose }: { run: string; lessons: string[]; about: string | undefined; onClose: () => void }) {
  const [chosen, setChosen] = useState<string[]>(about ? [about] : []);
  const ask = useRequestEvaluations(run);
  return (
    <ReasonDialog
      title={about ? `Evaluate ${about} now?` : "Evaluate lessons now?"}
      asking={ask}
      refused="Evaluation not requested"
      recordedIn={RECORDED_IN_EVENTS}
      submit="Evaluate"
      onSubmit={(reason) => ask.mutate({ lessons: chosen, reason }, { onSuccess: onClose })}
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
