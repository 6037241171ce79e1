import { Button, Group, Modal, MultiSelect, Textarea } from "@mantine/core";
import { useState } from "react";
import { useRequestEvaluations } from "@/api/lessons";
import { useMayOperate } from "@/api/session";
import type { RunDetail } from "@/api/types";
import { whyNotNow } from "@/pages/run/evaluations/asking";

type Props = {
  run: RunDetail;
  lessons: string[];
  /** The one lesson that it is about, where the button stands beside it. */
  chosen?: string;
};

/** The button that has lessons evaluated beside the schedule, or why nothing can be. */
export function EvaluateNow({ run, lessons, chosen }: Props) {
  const why = whyNotNow(run, useMayOperate());
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
  const [chosen, setChosen] = useState<string[]>(about ? [about] : []);
  const [reason, setReason] = useState("");
  const ask = useRequestEvaluations(run);
  const close = () => {
    setOpen(false);
    ask.reset();
  };
  return (
    <>
      <Button size="compact-sm" variant="default" onClick={() => setOpen(true)}>
        Evaluate now
      </Button>
      <Modal opened={isOpen} onClose={close} title={about ? `Evaluate ${about} now?` : "Evaluate lessons now?"}>
        <form
          onSubmit={(event) => {
            event.preventDefault();
            ask.mutate({ lessons: chosen, reason }, { onSuccess: close });
          }}
        >
          <p className="soft">
            The next free worker evaluates them at the present version, before it samples anything else. What is waiting already is not doubled, and the
            schedule stays as it is.
          </p>
          {!about && <MultiSelect label="Lessons" placeholder={chosen.length > 0 ? undefined : "all that are unlocked"} data={lessons} value={chosen} onChange={setChosen} />}
          <Textarea
            mt="sm"
            label="Reason"
            description="Kept in the run's events with your name."
            value={reason}
            maxLength={2000}
            autosize
            minRows={2}
            onChange={(event) => setReason(event.currentTarget.value)}
          />
          {ask.error && (
            <p className="small bad" role="alert">
              {ask.error.message}
            </p>
          )}
          <Group mt="md" justify="flex-end">
            <Button variant="default" onClick={close}>
              Cancel
            </Button>
            <Button type="submit" loading={ask.isPending}>
              Evaluate
            </Button>
          </Group>
        </form>
      </Modal>
    </>
  );
}
