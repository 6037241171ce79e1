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
import { UndoPause } from "@/pages/run/UndoPause";
import { uptimeText } from "@/pages/run/uptime";
import { VerbButtons, VerbProblem } from "@/pages/run/VerbButtons";
import { arrival } from "@/pages/run/verbs";
import { viewLink } from "@/share/link";

const ProjectOfRun = onDemand(() => import("@/pages/run/ProjectOfRun"), "default");
const TagsDialog = onDemand(() => import("@/pages/run/TagsDialog"), "default");

/** Copies a link to this view, including filters, zoom and the opened object. */
function CopyLink() {
  const { isSaid, copy } = useCopying();
  const router = useRouter();
  return (
    <button
      type="button"
      className="link-button"
      title="Copies a link to this view, including filters, range and the opened object."
      onClick={() => copy(viewLink(router))}
    >
      {isSaid ? "Link copied" : "Copy link"}
    </button>
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
  /** One line, above the viewers of trajectories. */
  isCompact: boolean;
};

/** The run's name, state, reason and actions. */
export function RunHeader({ title, run, fleet, ask, isCompact }: Props) {
  const mayOperate = useMayOperate();
  const [isTagging, setTagging] = useState(false);
  const [isMoving, setMoving] = useState(false);
  const isProven = useIsProven(run, fleet?.confirmed_at);
  const arrived = arrival(run, fleet, isProven);
  const reports = (
    <>
      {arrived && (
        <span className={`arrival-${arrived.state}`} data-arrival={arrived.state} role="status">
          <span aria-hidden="true">{arrived.state === "applied" ? "✓" : "◷"}</span> {arrived.text}
        </span>
      )}
      <UndoPause run={run} ask={ask} />
    </>
  );
  return (
    <>
      {!isCompact && (
        <nav aria-label="Breadcrumbs" className="crumbs">
          <Link to="/runs">Runs</Link> <span aria-hidden="true">/</span> <span aria-current="page">{title}</span>
        </nav>
      )}
      <div className="page-title run-title" data-status={run.status} data-compact={isCompact || undefined}>
        <h1>{title}</h1>
        <RunChip run={run} observedAt={fleet?.confirmed_at} reason={fleet?.reason} />
        {isCompact && (
          <span className="run-facts small soft">
            {reports}
            <CopyLink />
          </span>
        )}
        <span className="spacer" />
        {!run.archived_at && <VerbButtons run={run} ask={ask} />}
      </div>
      {!isCompact && (
        <div className="run-facts small soft">
          {reports}
          <span>
            {`${run.kind} run`}, created <Age at={run.created_at} suffix=" ago" />
          </span>
          <Uptime run={run} />
          <span>
            epoch {run.epoch} · policy {policyStep(run.policy_step)}
          </span>
          <span>
            {run.tags.map((tag) => (
              <AppLink key={tag} to={`/runs?q=${encodeURIComponent(`tag:"${tag}"`)}`} className="tag">
                {visible(tag)}
              </AppLink>
            ))}
            {run.tags.length > 0 && " "}
            {mayOperate && (
              <button type="button" className="link-button" onClick={() => setTagging(true)}>
                {run.tags.length > 0 ? "Edit tags" : "Add tags"}
              </button>
            )}
          </span>
          <span>
            {run.project && <ProjectTag name={run.project} />}
            {mayOperate && (
              <button type="button" className="link-button" onClick={() => setMoving(true)}>
                {run.project ? "Change project" : "Add to project"}
              </button>
            )}
          </span>
          <Link to="/compare" search={{ runs: run.name }}>
            Compare
          </Link>
          <CopyLink />
          {run.created_by && <span className="anywhere">by {visible(run.created_by)}</span>}
          {run.status_reason && <span className="anywhere">“{visible(run.status_reason)}”</span>}
        </div>
      )}
      <VerbProblem ask={ask} />
      {isMoving && <ProjectOfRun run={run} onClose={() => setMoving(false)} />}
      {isTagging && <TagsDialog run={run} onClose={() => setTagging(false)} />}
    </>
  );
}
