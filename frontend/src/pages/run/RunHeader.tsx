import { ActionIcon, Badge, Box, Button, Group, Menu, Space, Text } from "@mantine/core";
import { Link, useNavigate, useRouter } from "@tanstack/react-router";
import { Ellipsis } from "lucide-react";
import { type ReactNode, useState } from "react";
import { useReset } from "@/api/runs";
import { TAKES_OPERATOR, useMayOperate } from "@/api/session";
import type { RunDetail, RunVerb } from "@/api/types";
import { ProjectTag, RunChip, useIsProven } from "@/components/chips";
import { RECORDED_IN_EVENTS, ReasonDialog } from "@/components/Dialog";
import { Age, AppLink, Hint, useNow } from "@/components/inline";
import { onDemand } from "@/components/onDemand";
import { ErrorState, PageTitle, useCopying, useOutage } from "@/components/panels";
import { policyStep, utc, visible } from "@/format";
import { useRun, useRunPart } from "@/pages/run/RunContext";
import type { RunDialogName } from "@/pages/run/RunDialogs";
import runCss from "@/pages/run/run.module.css";
import { drainText, isActive, pendingRequest, uptimeText } from "@/pages/run/verbs";
import { ACTIONS, droppedText, type Verb } from "@/runs/actions";
import { viewLink } from "@/share/focus";
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

/** Creation, time since the last start, epoch and version. */
function Details({ run }: { run: RunDetail }) {
  const uptime = uptimeText(run, useNow());
  return (
    <Menu.Label>
      <div>
        {`${run.kind} run`}, created <Age at={run.created_at} suffix=" ago" />
        {run.created_by && ` by ${visible(run.created_by)}`}
      </div>
      {uptime && (
        <div data-uptime title={`Last started at ${utc(run.started_at)}; includes pauses`}>
          {uptime}
        </div>
      )}
      <div>
        epoch {run.epoch} · policy {policyStep(run.policy_step)}
      </div>
    </Menu.Label>
  );
}

function Dropped({ verb }: { verb: Verb }) {
  const text = droppedText(verb, useRun().run, useRunPart("ledger"));
  return text && <b data-dropped>{text}</b>;
}

/** The requested state until the run has it; the clock renders this element alone each second. */
function Pending() {
  const { run } = useRun();
  const fleet = useRunPart("fleet");
  const text = pendingRequest(run, fleet, useIsProven(run, fleet?.confirmed_at));
  return (
    text && (
      <span className="held" data-pending role="status">
        <span aria-hidden="true">◷</span> {text}
      </span>
    )
  );
}

function Drain() {
  const text = drainText(useRun().run, useRunPart("ledger"));
  return text && <span data-drain>{text}</span>;
}

/** The verbs of the run and a menu: a reversible verb acts at once from its button, and with a reason from the menu. */
function Verbs({ title, children }: { title: string; children: ReactNode }) {
  const { run, ask } = useRun();
  const mayOperate = useMayOperate();
  const silence = useOutage();
  const navigate = useNavigate();
  const [confirming, setConfirming] = useState<Verb | null>(null);
  const reset = useReset(run.name);
  const isArchived = run.archived_at !== null;
  const allowed: Verb[] = isArchived ? [] : run.kind === "outside" ? [...run.allowed_verbs, "reset"] : run.allowed_verbs;
  const isDisabled = !mayOperate || ask.isPending || reset.isPending || silence !== null;
  // A clone stays in the project.
  const clone = { from: run.name, project: run.project ?? undefined };
  const mayClone = !isArchived && run.kind !== "outside";
  const confirm = (verb: Verb) => {
    ask.reset();
    reset.reset();
    setConfirming(verb);
  };
  const toggle = allowed.find((verb) => verb === "resume") ?? allowed.find((verb) => verb === "pause");
  useShortcuts({ p: () => toggle && mayOperate && confirm(toggle) });
  const commands = (mayOperate ? allowed : []).map((verb) => ({
    id: `verb:${verb}`,
    group: "This page" as const,
    title: `${ACTIONS[verb].label} ${title}…`,
    note: ACTIONS[verb].does,
    act: () => confirm(verb),
  }));
  const cloning = {
    id: "verb:clone",
    group: "This page" as const,
    title: `Clone ${title}`,
    note: "Opens the launch form with this run's configuration.",
    act: () => void navigate({ to: "/runs/new", search: clone }),
  };
  useCommands(mayClone ? [...commands, cloning] : commands);
  const hintOf = (verb: Verb) =>
    silence ? `No server for ${silence}: nothing can be changed.` : mayOperate ? ACTIONS[verb].does : TAKES_OPERATOR;
  const described = (verb: Verb) => ({
    disabled: isDisabled,
    "data-verb": verb,
    "aria-description": silence ? hintOf(verb) : ACTIONS[verb].does,
  });
  const { label, does, destroys, typed } = ACTIONS[confirming ?? "pause"];
  return (
    <>
      <Group gap="xs" role="group" aria-label="Actions">
        {allowed
          .filter((verb) => !ACTIONS[verb].destroys)
          .map((verb) => (
            <Hint key={verb} label={hintOf(verb)}>
              <Button
                variant="default"
                loading={ask.isPending && ask.variables.verb === verb}
                {...described(verb)}
                onClick={() => ask.mutate({ verb: verb as RunVerb, reason: "" })}
              >
                {ACTIONS[verb].label}
              </Button>
            </Hint>
          ))}
        <Menu position="bottom-end" shadow="md">
          <Menu.Target>
            <ActionIcon variant="default" size={36} aria-label="More actions">
              <Ellipsis size={18} aria-hidden="true" />
            </ActionIcon>
          </Menu.Target>
          <Menu.Dropdown maw="20rem">
            {allowed.map((verb) => (
              <Menu.Item
                key={verb}
                className={ACTIONS[verb].typed ? "bad" : undefined}
                title={hintOf(verb)}
                {...described(verb)}
                onClick={() => confirm(verb)}
              >
                {ACTIONS[verb].destroys ? `${ACTIONS[verb].label}…` : `${ACTIONS[verb].label} with a reason…`}
              </Menu.Item>
            ))}
            {mayClone && <Menu.Item renderRoot={(props) => <Link to="/runs/new" search={clone} {...props} />}>Clone</Menu.Item>}
            {children}
            <Menu.Divider />
            <Details run={run} />
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
          {does} <Dropped verb={confirming} />
        </ReasonDialog>
      )}
      {/* A verb without a dialog. */}
      {ask.error && !confirming && (
        <Box w="100%">
          <ErrorState title={`${ACTIONS[ask.variables?.verb ?? "pause"].label} failed`} error={ask.error} />
        </Box>
      )}
    </>
  );
}

/** The run's name, state, reason, tags and actions in one row; all else in a menu. */
export function RunHeader({ title, isCompact }: { title: string; isCompact: boolean }) {
  const { run } = useRun();
  const fleet = useRunPart("fleet");
  const mayOperate = useMayOperate();
  const [dialog, setDialog] = useState<RunDialogName | null>(null);
  return (
    <>
      <PageTitle
        gap="0.25rem 0.75rem"
        mb={2}
        className={runCss.runTitle}
        title={title}
        data-status={run.status}
        data-compact={isCompact || undefined}
      >
        <RunChip run={run} observedAt={fleet?.confirmed_at} reason={fleet?.reason} />
        <Group gap="0.2rem 0.75rem" miw={0} className="small soft">
          <Pending />
          <Drain />
          {!isCompact && run.project && <ProjectTag name={run.project} />}
          {!isCompact &&
            run.tags.map((tag) => (
              <Badge key={tag} to={`/runs?q=${encodeURIComponent(`tag:"${tag}"`)}`} component={AppLink}>
                {visible(tag)}
              </Badge>
            ))}
          {run.status_reason && (
            <Text size="sm" truncate maw="24rem" title={visible(run.status_reason)}>
              “{visible(run.status_reason)}”
            </Text>
          )}
        </Group>
        <Space flex={1} />
        <Verbs title={title}>
          <Menu.Item renderRoot={(props) => <Link to="/compare" search={{ runs: run.name }} {...props} />}>Compare</Menu.Item>
          <CopyLink />
          {mayOperate && (
            <>
              <Menu.Item onClick={() => setDialog("tags")}>{run.tags.length > 0 ? "Edit tags" : "Add tags"}</Menu.Item>
              <Menu.Item onClick={() => setDialog("project")}>{run.project ? "Change project" : "Add to project"}</Menu.Item>
              {!isActive(run) && (
                <Menu.Item className="bad" data-verb="delete" onClick={() => setDialog("delete")}>
                  Delete…
                </Menu.Item>
              )}
            </>
          )}
        </Verbs>
      </PageTitle>
      {dialog && <RunDialog name={dialog} run={run} title={title} onClose={() => setDialog(null)} />}
    </>
  );
}
