import { Button, Group, Modal, Textarea, Tooltip } from "@mantine/core";
import { useState } from "react";
import { type Asked, type useAsk } from "@/api/runs";
import { useMayOperate } from "@/api/session";
import type { RunSummary, RunVerb } from "@/api/types";
import { ErrorState } from "@/components/ErrorState";
import { VERBS } from "@/pages/run/verbs";
import { useShortcuts } from "@/shell/keyboard";

type Ask = ReturnType<typeof useAsk>;
type ConfirmProps = { run: RunSummary; verb: RunVerb; onCancel: () => void; onConfirm: (asked: Asked) => void };

function Confirm({ run, verb, onCancel, onConfirm }: ConfirmProps) {
  const [reason, setReason] = useState("");
  const { label, does, destroys } = VERBS[verb];
  return (
    <Modal opened onClose={onCancel} title={`${label} ${run.name}?`}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          onConfirm({ verb, reason });
        }}
      >
        <p style={{ marginTop: 0 }}>{does}</p>
        <Textarea
          label="Reason"
          description="Kept in the run's events, for whoever asks later."
          value={reason}
          maxLength={2000}
          autosize
          minRows={2}
          data-autofocus
          onChange={(event) => setReason(event.currentTarget.value)}
        />
        <Group justify="flex-end" mt="lg">
          <Button variant="default" onClick={onCancel}>
            Leave it as it is
          </Button>
          <Button type="submit" color={destroys ? "red.8" : undefined}>
            {label}
          </Button>
        </Group>
      </form>
    </Modal>
  );
}

const MAIN: RunVerb[] = ["start", "pause", "resume"];

/** What may be asked of the run now; each button says what it does. */
export function VerbButtons({ run, ask }: { run: RunSummary; ask: Ask }) {
  const mayOperate = useMayOperate();
  const [confirming, setConfirming] = useState<RunVerb | null>(null);
  const allowed = run.allowed_verbs;
  const toggle = allowed.includes("resume") ? "resume" : allowed.includes("pause") ? "pause" : null;
  useShortcuts({ p: () => toggle && mayOperate && setConfirming(toggle) });

  const begin = (verb: RunVerb) => (VERBS[verb].destroys ? setConfirming(verb) : ask.mutate({ verb, reason: "" }));
  const asked = ask.isPending ? ask.variables.verb : null;
  return (
    <>
      <Group gap="xs" role="group" aria-label="What to do with this run">
        {allowed.map((verb) => (
          <Tooltip key={verb} label={mayOperate ? VERBS[verb].does : "You may look; this takes an operator."}>
            <Button
              variant={MAIN.includes(verb) ? "filled" : "default"}
              className={verb === "kill" ? "kill" : undefined}
              disabled={!mayOperate || asked !== null}
              data-verb={verb}
              onClick={() => begin(verb)}
            >
              {asked === verb ? `${VERBS[verb].asking}…` : VERBS[verb].label}
            </Button>
          </Tooltip>
        ))}
      </Group>
      {confirming && (
        <Confirm
          run={run}
          verb={confirming}
          onCancel={() => setConfirming(null)}
          onConfirm={(given) => {
            setConfirming(null);
            ask.mutate(given);
          }}
        />
      )}
    </>
  );
}

/** What the server said against the last verb, until the next one. */
export function VerbProblem({ ask }: { ask: Ask }) {
  if (!ask.error) return null;
  return (
    <div style={{ marginBottom: "1rem" }}>
      <ErrorState title={`${VERBS[ask.variables?.verb ?? "pause"].label} was refused`} error={ask.error} />
    </div>
  );
}
