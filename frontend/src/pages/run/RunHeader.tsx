import { ActionIcon, Badge, Button, Group, Menu, Space } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useRouter } from "@tanstack/react-router";
import { Ellipsis } from "lucide-react";
import { type ReactNode, useState } from "react";
import { QUEUE_MS, queueQuery } from "@/api/queue";
import { type useAsk, useReset } from "@/api/runs";
import { TAKES_OPERATOR, useMayOperate } from "@/api/session";
import type { FleetPart, RunDetail, RunVerb } from "@/api/types";
import { ProjectTag, RunChip, useIsProven } from "@/components/chips";
import { RECORDED_IN_EVENTS, ReasonDialog } from "@/components/Dialog";
import { Age, AppLink, Hint, useNow } from "@/components/inline";
import { onDemand } from "@/components/onDemand";
import { ErrorState, PageTitle, useCopying, useOutage } from "@/components/panels";
import { policyStep, utc, visible } from "@/format";
import { usePartChangeFeed } from "@/live/live";
import { useRun } from "@/pages/run/RunContext";
import type { RunDialogName } from "@/pages/run/RunDialogs";
import runCss from "@/pages/run/run.module.css";
import { drainText, droppedText, isActive, pendingRequest, uptimeText, VERBS, type Verb } from "@/pages/run/verbs";
import { viewLink } from "@/share/link";
import { useShortcuts } from "@/shell/keyboard";
import { useCommands } from "@/shell/palette/commands";

const RunDialog = onDemand(() => import("@/pages/run/RunDialogs"), "RunDialog");

/** Copies a link to this view, including filters, zoom and the opened object. */
function CopyLink() {
  const { isSaid, copy } = useCopying();
  const router = useRouter();
  return (
    <Menu.Item
      closeMenuOnClick={false}
      title="Copies a link to this view, including filters, range and the opened object."
      onClick={() => copy(viewLink(router))}
    >
      {isSaid ? "Link copied" : "Copy link"}
    </Menu.Item>
  );
}

/** The time since the last start. */
function Uptime({ run }: { run: RunDetail }) {
  const text = uptimeText(run, useNow());
  return (
    text && (
      <span data-uptime title={`Last started at ${utc(run.started_at)}; includes pauses`}>
        {text}
      </span>
    )
  );
}

/** The estimated time of a drain. */
function Drain({ run }: { run: RunDetail }) {
  const refetchInterval = usePartChangeFeed(`run:${run.name}`, "queue", QUEUE_MS, ["queue", run.name]);
  const { data } = useQuery({ ...queueQuery(run.name), refetchInterval });
  return <span data-drain>{drainText(run, data)}</span>;
}

type Ask = ReturnType<typeof useAsk>;
type VerbProps = { run: RunDetail; title: string; ask: Ask; children: ReactNode };

/** The verbs of the run and a menu; reversible verbs act at once, or with a reason from their second button. */
function Verbs({ run, title, ask, children }: VerbProps) {
  const mayOperate = useMayOperate();
  const silence = useOutage();
  const navigate = useNavigate();
  const { ledger } = useRun();
  const [confirming, setConfirming] = useState<Verb | null>(null);
  const reset = useReset(run.name);
  const isArchived = run.archived_at !== null;
  const allowed: Verb[] = isArchived ? [] : run.kind === "outside" ? [...run.allowed_verbs, "reset"] : run.allowed_verbs;
  const asked: Verb | null = ask.isPending ? ask.variables.verb : reset.isPending ? "reset" : null;
  const isDisabled = !mayOperate || asked !== null || silence !== null;
  // A clone stays in the project.
  const clone = { from: run.name, project: run.project ?? undefined };
  const mayClone = !isArchived && run.kind !== "outside";

  const confirm = (verb: Verb) => {
    if (ask.isError) ask.reset();
    reset.reset();
    setConfirming(verb);
  };
  const toggle = allowed.find((verb) => verb === "resume") ?? allowed.find((verb) => verb === "pause");
  useShortcuts({ p: () => toggle && mayOperate && confirm(toggle) });
  useCommands([
    ...(mayOperate ? allowed : []).map((verb) => ({
      ...{ id: `verb:${verb}`, group: "This page" as const, title: `${VERBS[verb].label} ${title}…`, note: VERBS[verb].does },
      act: () => confirm(verb),
    })),
    ...(mayClone
      ? [
          {
            ...{ id: "verb:clone", group: "This page" as const, title: `Clone ${title}` },
            note: "Opens the launch form with this run's configuration.",
            act: () => void navigate({ to: "/runs/new", search: clone }),
          },
        ]
      : []),
  ]);

  const lookOf = (verb: Verb) => {
    const { label, asking, does } = VERBS[verb];
    const hint = silence ? `No server for ${silence}: nothing can be changed.` : mayOperate ? does : TAKES_OPERATOR;
    return {
      hint,
      words: asked === verb ? `${asking}…` : label,
      button: { disabled: isDisabled, "data-verb": verb, "aria-description": silence ? hint : does },
    };
  };
  const { label, does, destroys, typed } = VERBS[confirming ?? "pause"];
  const dropped = confirming && droppedText(confirming, run, ledger);
  return (
    <>
      <Group gap="xs" role="group" aria-label="Actions">
        {allowed
          .filter((verb) => !VERBS[verb].destroys)
          .map((verb) => {
            const { hint, words, button } = lookOf(verb);
            return (
              <Button.Group key={verb}>
                <Hint label={hint}>
                  <Button variant="default" {...button} onClick={() => ask.mutate({ verb: verb as RunVerb, reason: "" })}>
                    {words}
                  </Button>
                </Hint>
                <Hint label={`${VERBS[verb].label} with a reason`}>
                  <Button variant="default" px="xs" disabled={isDisabled} aria-label="Give a reason" onClick={() => confirm(verb)}>
                    <span aria-hidden="true">▾</span>
                  </Button>
                </Hint>
              </Button.Group>
            );
          })}
        <Menu position="bottom-end" shadow="md">
          <Menu.Target>
            <ActionIcon variant="default" size={36} aria-label="More actions">
              <Ellipsis size={18} aria-hidden="true" />
            </ActionIcon>
          </Menu.Target>
          <Menu.Dropdown maw="20rem">
            {allowed
              .filter((verb) => VERBS[verb].destroys)
              .map((verb) => {
                const { hint, words, button } = lookOf(verb);
                return (
                  <Menu.Item
                    key={verb}
                    className={VERBS[verb].typed ? runCss.kill : undefined}
                    title={hint}
                    {...button}
                    onClick={() => confirm(verb)}
                  >
                    {words}…
                  </Menu.Item>
                );
              })}
            {mayClone && (
              <Menu.Item
                title="Opens the launch form with this run's configuration and highlights your changes."
                renderRoot={(props) => <Link to="/runs/new" search={clone} {...props} />}
              >
                Clone
              </Menu.Item>
            )}
            {children}
          </Menu.Dropdown>
        </Menu>
      </Group>
      {confirming && (
        <ReasonDialog
          title={`${label} ${title}?`}
          asking={confirming === "reset" ? reset : ask}
          refused={`${label} failed`}
          recordedIn={RECORDED_IN_EVENTS}
          submit={label}
          typed={typed ? title : undefined}
          needsReason={typed}
          destroys={destroys}
          onSubmit={(reason) => {
            const onSuccess = () => setConfirming(null);
            if (confirming === "reset") reset.mutate(reason, { onSuccess });
            else ask.mutate({ verb: confirming, reason }, { onSuccess });
          }}
          onClose={() => setConfirming(null)}
        >
          {does} {dropped && <b data-dropped>{dropped}</b>}
        </ReasonDialog>
      )}
      {/* A verb without a dialog. */}
      {ask.error && !confirming && (
        <div className={runCss.verbProblem}>
          <ErrorState title={`${VERBS[ask.variables?.verb ?? "pause"].label} failed`} error={ask.error} />
        </div>
      )}
    </>
  );
}

type Props = {
  title: string;
  run: RunDetail;
  fleet: FleetPart | undefined;
  ask: Ask;
  /** Smaller, above the viewers of trajectories. */
  isCompact: boolean;
};

/** The run's name, state, reason, tags and actions in one row; all else in a menu. */
export function RunHeader({ title, run, fleet, ask, isCompact }: Props) {
  const mayOperate = useMayOperate();
  const [dialog, setDialog] = useState<RunDialogName | null>(null);
  const pending = pendingRequest(run, fleet, useIsProven(run, fleet?.confirmed_at));
  return (
    <>
      <PageTitle className={runCss.runTitle} title={title} data-status={run.status} data-compact={isCompact || undefined}>
        <RunChip run={run} observedAt={fleet?.confirmed_at} reason={fleet?.reason} />
        <div className={`${runCss.runFacts} small soft`}>
          {pending && (
            <span className={runCss["arrival-requested"]} data-pending role="status">
              <span aria-hidden="true">◷</span> {pending}
            </span>
          )}
          {run.status === "draining" && <Drain run={run} />}
          {!isCompact && run.project && <ProjectTag name={run.project} />}
          {!isCompact &&
            run.tags.map((tag) => (
              <Badge key={tag} to={`/runs?q=${encodeURIComponent(`tag:"${tag}"`)}`} component={AppLink}>
                {visible(tag)}
              </Badge>
            ))}
          {run.status_reason && (
            <span className={runCss.runReason} title={visible(run.status_reason)}>
              “{visible(run.status_reason)}”
            </span>
          )}
        </div>
        <Space flex={1} />
        <Verbs run={run} title={title} ask={ask}>
          <Menu.Item renderRoot={(props) => <Link to="/compare" search={{ runs: run.name }} {...props} />}>Compare</Menu.Item>
          <CopyLink />
          {mayOperate && (
            <>
              <Menu.Item onClick={() => setDialog("tags")}>{run.tags.length > 0 ? "Edit tags" : "Add tags"}</Menu.Item>
              <Menu.Item onClick={() => setDialog("project")}>{run.project ? "Change project" : "Add to project"}</Menu.Item>
              {!isActive(run) && (
                <Menu.Item className={runCss.kill} data-verb="delete" onClick={() => setDialog("delete")}>
                  Delete…
                </Menu.Item>
              )}
            </>
          )}
          <Menu.Divider />
          <Menu.Label className={runCss.runDetails}>
            <span>
              {`${run.kind} run`}, created <Age at={run.created_at} suffix=" ago" />
              {run.created_by && ` by ${visible(run.created_by)}`}
            </span>
            <Uptime run={run} />
            <span>
              epoch {run.epoch} · policy {policyStep(run.policy_step)}
            </span>
          </Menu.Label>
        </Verbs>
      </PageTitle>
      {dialog && <RunDialog name={dialog} run={run} title={title} onClose={() => setDialog(null)} />}
    </>
  );
}
