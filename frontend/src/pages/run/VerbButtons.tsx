import { Button, Group, Tooltip } from "@mantine/core";
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { type Asked, type useAsk, useReset } from "@/api/runs";
import { TAKES_OPERATOR, useMayOperate } from "@/api/session";
import type { RunSummary, RunVerb } from "@/api/types";
import { ErrorState } from "@/components/ErrorState";
import { useOutage } from "@/components/Outage";
import { deleteDraft } from "@/components/useDraft";
import { ConfirmVerb, draftOf } from "@/pages/run/ConfirmVerb";
import { VERBS, type Verb } from "@/pages/run/verbs";
import { useShortcuts } from "@/shell/keyboard";
import { type Command, useCommands } from "@/shell/palette/commands";
import { takeVerb } from "@/shell/palette/verbs";

type Ask = ReturnType<typeof useAsk>;

const MAIN: Verb[] = ["start", "pause", "resume"];

/** The search parameters of the launch form for a clone, which stays in the project. */
const cloneOf = ({ name, project }: RunSummary) => ({ from: name, project: project ?? undefined });

/** The same verbs for the command palette, each with a confirmation. */
function useVerbCommands(run: RunSummary, allowed: Verb[], onAsk: (verb: Verb) => void): Command[] {
  const navigate = useNavigate();
  const verbs = allowed.map(
    (verb): Command => ({
      id: `verb:${verb}`,
      group: "This page",
      title: `${VERBS[verb].label} ${run.name}…`,
      note: VERBS[verb].does,
      act: () => onAsk(verb),
    }),
  );
  if (run.kind === "outside") return verbs;
  const clone = () => void navigate({ to: "/runs/new", search: cloneOf(run) });
  return [
    ...verbs,
    {
      id: "verb:clone",
      group: "This page",
      title: `Clone ${run.name}`,
      note: "Opens the launch form with this run's configuration.",
      act: clone,
    },
  ];
}

type ButtonProps = { verb: Verb; asked: Verb | null; mayOperate: boolean; onAct: () => void; onExplain: () => void };

/** A verb's button; if it needs no confirmation, with a second button to give a reason. */
function VerbButton({ verb, asked, mayOperate, onAct, onExplain }: ButtonProps) {
  const { label, asking, does, destroys, typed } = VERBS[verb];
  const silence = useOutage();
  const isDisabled = !mayOperate || asked !== null || silence !== null;
  const hint = silence ? `No server for ${silence}: nothing can be changed.` : mayOperate ? does : TAKES_OPERATOR;
  const button = (
    <Tooltip label={hint}>
      <Button
        variant={MAIN.includes(verb) ? "filled" : "default"}
        className={typed ? "kill" : undefined}
        disabled={isDisabled}
        data-verb={verb}
        aria-description={silence ? hint : does}
        onClick={onAct}
      >
        {asked === verb ? `${asking}…` : label}
      </Button>
    </Tooltip>
  );
  if (destroys) return button;
  return (
    <Button.Group>
      {button}
      <Tooltip label={`${label} with a reason`}>
        <Button className="explain" disabled={isDisabled} aria-label="Give a reason" onClick={onExplain}>
          <span aria-hidden="true">▾</span>
        </Button>
      </Tooltip>
    </Button.Group>
  );
}

/** The verbs currently available for the run; each button describes its effect. */
export function VerbButtons({ run, ask }: { run: RunSummary; ask: Ask }) {
  const mayOperate = useMayOperate();
  // The palette of another page may have opened this one with a verb.
  const [confirming, setConfirming] = useState<Verb | null>(() => takeVerb(run.name));
  const reset = useReset(run.name);
  const allowed: Verb[] = run.kind === "outside" ? [...run.allowed_verbs, "reset"] : run.allowed_verbs;
  const toggle = allowed.includes("resume") ? "resume" : allowed.includes("pause") ? "pause" : null;
  useShortcuts({ p: () => toggle && mayOperate && setConfirming(toggle) });
  useCommands(useVerbCommands(run, mayOperate ? allowed : [], setConfirming));

  const begin = (verb: Verb) => (VERBS[verb].destroys ? setConfirming(verb) : ask.mutate({ verb: verb as RunVerb, reason: "" }));
  const asked: Verb | null = ask.isPending ? ask.variables.verb : reset.isPending ? "reset" : null;
  return (
    <>
      <Group gap="xs" role="group" aria-label="Actions">
        {allowed.map((verb) => (
          <VerbButton
            key={verb}
            verb={verb}
            asked={asked}
            mayOperate={mayOperate}
            onAct={() => begin(verb)}
            onExplain={() => setConfirming(verb)}
          />
        ))}
        {run.kind !== "outside" && (
          <Tooltip label="Opens the launch form with this run's configuration and highlights your changes.">
            <Button variant="default" renderRoot={(props) => <Link to="/runs/new" search={cloneOf(run)} {...props} />}>
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
            // The draft is cleared on success only, so that it survives an expired session.
            const onSuccess = () => deleteDraft(draftOf(run.name, confirming));
            if (confirming === "reset") reset.mutate(reason, { onSuccess });
            else ask.mutate({ verb: confirming, reason } satisfies Asked, { onSuccess });
          }}
        />
      )}
      {reset.error && <ErrorState title="Reset failed" error={reset.error} />}
    </>
  );
}

/** The server's error for the last verb, until the next one. */
export function VerbProblem({ ask }: { ask: Ask }) {
  if (!ask.error) return null;
  return (
    <div className="verb-problem">
      <ErrorState title={`${VERBS[ask.variables?.verb ?? "pause"].label} failed`} error={ask.error} />
    </div>
  );
}
