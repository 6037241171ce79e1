import { Button } from "@mantine/core";
import { useState } from "react";
import { useMayOperate } from "@/api/session";
import type { QueueAnswer, RunDetail } from "@/api/types";
import { Age } from "@/components/Age";
import { Panel } from "@/components/Panel";
import { duration, number, visible } from "@/format";
import { LimitsDialog } from "@/pages/run/queue/LimitsDialog";
import { isOver } from "@/theme/chips";

const RULES = {
  tolerance: { name: "Length of the queue", asks: "Producers pause above it, and go on at the lower mark." },
  staleness: { name: "Age of the data", asks: "What more came in would be too stale when it is trained on." },
} as const;

function GateRow({ gate }: { gate: QueueAnswer["gates"][number] }) {
  const { name, asks } = RULES[gate.rule];
  const filled = gate.limit > 0 ? Math.min(1, gate.amount / gate.limit) : 0;
  return (
    <li data-gate={gate.rule} data-closed={gate.closed}>
      <div className="gate-head">
        <span className={`chip tone-${gate.closed ? "held" : "good"}`}>
          <span className="chip-sign" aria-hidden="true">
            {gate.closed ? "▲" : "✓"}
          </span>
          {gate.closed ? "pauses" : "open"}
        </span>
        <b>{name}</b>
        <span className="faint small">{asks}</span>
      </div>
      <meter className="gate-meter" min={0} max={1} value={filled} aria-label={`${name}: ${gate.words}`} data-over={gate.closed} />
      <code className="gate-words">{gate.words}</code>
    </li>
  );
}

/** Why producers wait, in the inequality's own words: who set it, since when, until when. */
export function WhyPaused({ run, queue }: { run: RunDetail; queue: QueueAnswer }) {
  const mayOperate = useMayOperate();
  const [isChanging, setChanging] = useState(false);
  const { paused, gates, since, set_by, resumes_in_seconds, trained_per_second, unit } = queue;
  const title = paused ? "Why is it paused?" : "What would pause it?";
  const change = mayOperate && !isOver(run.status) && (
    <Button
      size="compact-sm"
      variant="default"
      title="Tolerance, staleness and the lease, while the run goes on"
      onClick={() => setChanging(true)}
    >
      Change limits
    </Button>
  );
  return (
    <Panel title={title} note={paused ? "producers wait" : "producers may go on"} aside={change} className="span-6">
      {gates.length === 0 ? (
        <p className="soft">The trainer says how large a batch is when it registers; until then nothing pauses.</p>
      ) : (
        <ul className="gates">
          {gates.map((gate) => (
            <GateRow key={gate.rule} gate={gate} />
          ))}
        </ul>
      )}
      <dl className="facts">
        {since && (
          <>
            <dt>Since</dt>
            <dd>
              <Age at={since} suffix=" ago" />
            </dd>
          </>
        )}
        <dt>Trained on</dt>
        <dd>{trained_per_second === null ? "no batch in two minutes" : `${number(trained_per_second)} ${unit} per second`}</dd>
        {paused && (
          <>
            <dt>Goes on</dt>
            <dd data-resumes>
              {resumes_in_seconds === null ? "when a trainer takes batches again" : `in about ${duration(resumes_in_seconds)} at this rate`}
            </dd>
          </>
        )}
        {set_by && (
          <>
            <dt>Limit set by</dt>
            <dd className="anywhere">
              {visible(set_by.actor)}
              {set_by.was_created_so ? " when the run was created, " : ", "}
              <Age at={set_by.at} suffix=" ago" />
              {set_by.reason && <span className="soft"> “{visible(set_by.reason)}”</span>}
            </dd>
          </>
        )}
      </dl>
      {isChanging && <LimitsDialog run={run} onClose={() => setChanging(false)} />}
    </Panel>
  );
}
