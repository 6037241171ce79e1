import { Button, Group, Tooltip } from "@mantine/core";
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { type Asked, type useAsk, useReset } from "@/api/runs";
import { useMayOperate } from "@/api/session";
import type { RunSummary, RunVerb } from "@/api/types";
import { ErrorState } from "@/components/ErrorState";
import { ConfirmVerb } from "@/pages/run/ConfirmVerb";
import { VERBS, type Verb } from "@/pages/run/verbs";
import { useShortcuts } from "@/shell/keyboard";
import { type Command, useCommands } from "@/shell/palette/commands";

type Ask = ReturnType<typeof useAsk>;

const MAIN: Verb[] = ["start", "pause", "resume"];

/** The same for the palette, where each one is asked about first. */
function useVerbCommands(run: RunSummary, allowed: Verb[], onAsk: (verb: Verb) => void): Command[] {
  const navigate = useNavigate();
  const verbs = allowed.map(
    (verb): Command => ({ id: `verb:${verb}`, group: "This page", title: `${VERBS[verb].label} ${run.name}…`, note: VERBS[verb].does, act: () => onAsk(verb) }),
  );
  if (run.kind === "outside") return verbs;
  const clone = () => void navigate({ to: "/runs/new", search: { from: run.name } });
  return [...verbs, { id: "verb:clone", group: "This page", title: `Clone ${run.name}`, note: "Opens the launch form with its configuration.", act: clone }];
}

/** What may be asked of the run now; each button says what it does. */
export function VerbButtons({ run, ask }: { run: RunSummary; ask: Ask }) {
  const mayOperate = useMayOperate();
  const [confirming, setConfirming] = useState<Verb | null>(null);
  const reset = useReset(run.name);
  const allowed: Verb[] = run.kind === "outside" ? [...run.allowed_verbs, "reset"] : run.allowed_verbs;
  const toggle = allowed.includes("resume") ? "resume" : allowed.includes("pause") ? "pause" : null;
  useShortcuts({ p: () => toggle && mayOperate && setConfirming(toggle) });
  useCommands(useVerbCommands(run, mayOperate ? allowed : [], setConfirming));

  const begin = (verb: Verb) => (VERBS[verb].destroys ? setConfirming(verb) : ask.mutate({ verb: verb as RunVerb, reason: "" }));
  const asked: Verb | null = ask.isPending ? ask.variables.verb : reset.isPending ? "reset" : null;
  return (
    <>
      <Group gap="xs" role="group" aria-label="What to do with this run">
        {allowed.map((verb) => (
          <Tooltip key={verb} label={mayOperate ? VERBS[verb].does : "You may look; this takes an operator."}>
            <Button
              variant={MAIN.includes(verb) ? "filled" : "default"}
              className={VERBS[verb].typed ? "kill" : undefined}
              disabled={!mayOperate || asked !== null}
              data-verb={verb}
              aria-description={VERBS[verb].does}
              onClick={() => begin(verb)}
            >
              {asked === verb ? `${VERBS[verb].asking}…` : VERBS[verb].label}
            </Button>
          </Tooltip>
        ))}
        {run.kind !== "outside" && (
          <Tooltip label="Opens the launch form with this run's configuration, and shows what you change of it.">
            <Button variant="default" renderRoot={(props) => <Link to="/runs/new" search={{ from: run.name }} {...props} />}>
              Clone
            </Button>
          </Tooltip>
        )}
      </Group>
      {confirming && (
        <ConfirmVerb
          run={run}
          verb={confirming}
          onCancel={() => setConfirming(null)}
          onConfirm={(reason) => {
            setConfirming(null);
            if (confirming === "reset") reset.mutate(reason);
            else ask.mutate({ verb: confirming, reason } satisfies Asked);
          }}
        />
      )}
      {reset.error && <ErrorState title="Reset was refused" error={reset.error} />}
    </>
  );
}

/** What the server said against the last verb, until the next one. */
export function VerbProblem({ ask }: { ask: Ask }) {
  if (!ask.error) return null;
  return (
    <div className="verb-problem">
      <ErrorState title={`${VERBS[ask.variables?.verb ?? "pause"].label} was refused`} error={ask.error} />
    </div>
  );
}
