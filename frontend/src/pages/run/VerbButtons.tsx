import { ActionIcon, Button, Group, Menu } from "@mantine/core";
import { Link, useNavigate } from "@tanstack/react-router";
import { Ellipsis } from "lucide-react";
import { type ReactNode, useState } from "react";
import { type Asked, type useAsk, useReset } from "@/api/runs";
import { TAKES_OPERATOR, useMayOperate } from "@/api/session";
import type { RunSummary, RunVerb } from "@/api/types";
import { ErrorState } from "@/components/ErrorState";
import { Hint } from "@/components/Hint";
import { useOutage } from "@/components/Outage";
import { deleteDraft } from "@/components/useDraft";
import { ConfirmVerb, draftOf } from "@/pages/run/ConfirmVerb";
import runCss from "@/pages/run/run.module.css";
import { VERBS, type Verb } from "@/pages/run/verbs";
import { useShortcuts } from "@/shell/keyboard";
import { type Command, useCommands } from "@/shell/palette/commands";

type Ask = ReturnType<typeof useAsk>;

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
  if (run.kind === "outside" || run.archived_at !== null) return verbs;
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

/** Whether a verb is disabled, and its effect or why it is disabled. */
function useHint(verb: Verb, asked: Verb | null, mayOperate: boolean) {
  const silence = useOutage();
  const { does } = VERBS[verb];
  const hint = silence ? `No server for ${silence}: nothing can be changed.` : mayOperate ? does : TAKES_OPERATOR;
  return { isDisabled: !mayOperate || asked !== null || silence !== null, hint, description: silence ? hint : does };
}

/** The button of a verb without a confirmation, with a second button to give a reason. */
function VerbButton({ verb, asked, mayOperate, onAct, onExplain }: ButtonProps) {
  const { label, asking } = VERBS[verb];
  const { isDisabled, hint, description } = useHint(verb, asked, mayOperate);
  return (
    <Button.Group>
      <Hint label={hint}>
        <Button variant="default" disabled={isDisabled} data-verb={verb} aria-description={description} onClick={onAct}>
          {asked === verb ? `${asking}…` : label}
        </Button>
      </Hint>
      <Hint label={`${label} with a reason`}>
        <Button variant="default" className={runCss.explain} disabled={isDisabled} aria-label="Give a reason" onClick={onExplain}>
          <span aria-hidden="true">▾</span>
        </Button>
      </Hint>
    </Button.Group>
  );
}

/** The menu item of a verb that needs a confirmation. */
function VerbItem({ verb, asked, mayOperate, onExplain }: Omit<ButtonProps, "onAct">) {
  const { label, asking, typed } = VERBS[verb];
  const { isDisabled, hint, description } = useHint(verb, asked, mayOperate);
  return (
    <Menu.Item
      className={typed ? runCss.kill : undefined}
      disabled={isDisabled}
      data-verb={verb}
      title={hint}
      aria-description={description}
      onClick={onExplain}
    >
      {asked === verb ? `${asking}…` : label}…
    </Menu.Item>
  );
}

type Props = {
  run: RunSummary;
  ask: Ask;
  /** Further items of the menu. */
  children?: ReactNode;
};

/** The verbs currently available for the run: reversible ones as a button, the others in a menu. */
export function VerbButtons({ run, ask, children }: Props) {
  const mayOperate = useMayOperate();
  const [confirming, setConfirming] = useState<Verb | null>(null);
  const reset = useReset(run.name);
  const isArchived = run.archived_at !== null;
  const allowed: Verb[] = isArchived ? [] : run.kind === "outside" ? [...run.allowed_verbs, "reset"] : run.allowed_verbs;
  const toggle = allowed.includes("resume") ? "resume" : allowed.includes("pause") ? "pause" : null;
  useShortcuts({ p: () => toggle && mayOperate && setConfirming(toggle) });
  useCommands(useVerbCommands(run, mayOperate ? allowed : [], setConfirming));

  const asked: Verb | null = ask.isPending ? ask.variables.verb : reset.isPending ? "reset" : null;
  return (
    <>
      <Group gap="xs" role="group" aria-label="Actions">
        {allowed
          .filter((verb) => !VERBS[verb].destroys)
          .map((verb) => (
            <VerbButton
              key={verb}
              verb={verb}
              asked={asked}
              mayOperate={mayOperate}
              onAct={() => ask.mutate({ verb: verb as RunVerb, reason: "" })}
              onExplain={() => setConfirming(verb)}
            />
          ))}
        <Menu position="bottom-end" shadow="md">
          <Menu.Target>
            <ActionIcon variant="default" size={36} aria-label="More actions">
              <Ellipsis size={18} aria-hidden="true" />
            </ActionIcon>
          </Menu.Target>
          <Menu.Dropdown className={runCss.runMenu}>
            {allowed
              .filter((verb) => VERBS[verb].destroys)
              .map((verb) => (
                <VerbItem key={verb} verb={verb} asked={asked} mayOperate={mayOperate} onExplain={() => setConfirming(verb)} />
              ))}
            {!isArchived && run.kind !== "outside" && (
              <Menu.Item
                title="Opens the launch form with this run's configuration and highlights your changes."
                renderRoot={(props) => <Link to="/runs/new" search={cloneOf(run)} {...props} />}
              >
                Clone
              </Menu.Item>
            )}
            {children}
          </Menu.Dropdown>
        </Menu>
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
    <div className={runCss.verbProblem}>
      <ErrorState title={`${VERBS[ask.variables?.verb ?? "pause"].label} failed`} error={ask.error} />
    </div>
  );
}
