import { Menu } from "@mantine/core";
import { Link, useRouter } from "@tanstack/react-router";
import { useState } from "react";
import type { useAsk } from "@/api/runs";
import { useMayOperate } from "@/api/session";
import type { FleetPart, RunDetail } from "@/api/types";
import { Age } from "@/components/Age";
import { AppLink } from "@/components/AppLink";
import { useCopying } from "@/components/Copying";
import { useNow } from "@/components/now";
import { onDemand } from "@/components/onDemand";
import { ProjectTag } from "@/components/ProjectTag";
import { RunChip, useIsProven } from "@/components/RunChip";
import { policyStep, utc, visible } from "@/format";
import runCss from "@/pages/run/run.module.css";
import { UndoPause } from "@/pages/run/UndoPause";
import { uptimeText } from "@/pages/run/uptime";
import { VerbButtons, VerbProblem } from "@/pages/run/VerbButtons";
import { arrival, isActive } from "@/pages/run/verbs";
import { viewLink } from "@/share/link";

const DeleteRun = onDemand(() => import("@/pages/run/DeleteRun"), "default");
const ProjectOfRun = onDemand(() => import("@/pages/run/ProjectOfRun"), "default");
const TagsDialog = onDemand(() => import("@/pages/run/TagsDialog"), "default");

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

type Props = {
  title: string;
  run: RunDetail;
  fleet: FleetPart | undefined;
  ask: ReturnType<typeof useAsk>;
  /** Smaller, above the viewers of trajectories. */
  isCompact: boolean;
};

/** The run's name, state, reason, tags and actions in one row; all else in a menu. */
export function RunHeader({ title, run, fleet, ask, isCompact }: Props) {
  const mayOperate = useMayOperate();
  const [isTagging, setTagging] = useState(false);
  const [isMoving, setMoving] = useState(false);
  const [isDeleting, setDeleting] = useState(false);
  const isProven = useIsProven(run, fleet?.confirmed_at);
  const arrived = arrival(run, fleet, isProven);
  return (
    <>
      <div className={`page-title ${runCss.runTitle}`} data-status={run.status} data-compact={isCompact || undefined}>
        <h1>{title}</h1>
        <RunChip run={run} observedAt={fleet?.confirmed_at} reason={fleet?.reason} />
        <div className={`${runCss.runFacts} small soft`}>
          {arrived && (
            <span className={runCss[`arrival-${arrived.state}`]} data-arrival={arrived.state} role="status">
              <span aria-hidden="true">{arrived.state === "applied" ? "✓" : "◷"}</span> {arrived.text}
            </span>
          )}
          <UndoPause run={run} ask={ask} />
          {!isCompact && run.project && <ProjectTag name={run.project} />}
          {!isCompact &&
            run.tags.map((tag) => (
              <AppLink key={tag} to={`/runs?q=${encodeURIComponent(`tag:"${tag}"`)}`} className="tag">
                {visible(tag)}
              </AppLink>
            ))}
          {run.status_reason && (
            <span className={runCss.runReason} title={visible(run.status_reason)}>
              “{visible(run.status_reason)}”
            </span>
          )}
        </div>
        <span className="spacer" />
        <VerbButtons run={run} ask={ask}>
          <Menu.Item renderRoot={(props) => <Link to="/compare" search={{ runs: run.name }} {...props} />}>Compare</Menu.Item>
          <CopyLink />
          {mayOperate && (
            <>
              <Menu.Item onClick={() => setTagging(true)}>{run.tags.length > 0 ? "Edit tags" : "Add tags"}</Menu.Item>
              <Menu.Item onClick={() => setMoving(true)}>{run.project ? "Change project" : "Add to project"}</Menu.Item>
              {!isActive(run) && (
                <Menu.Item className={runCss.kill} data-verb="delete" onClick={() => setDeleting(true)}>
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
        </VerbButtons>
      </div>
      <VerbProblem ask={ask} />
      {isMoving && <ProjectOfRun run={run} onClose={() => setMoving(false)} />}
      {isDeleting && <DeleteRun run={run} title={title} onClose={() => setDeleting(false)} />}
      {isTagging && <TagsDialog run={run} onClose={() => setTagging(false)} />}
    </>
  );
}
