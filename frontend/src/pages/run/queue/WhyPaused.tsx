import { Button } from "@mantine/core";
import { useState } from "react";
import { useMayOperate } from "@/api/session";
import type { QueueAnswer, RunDetail } from "@/api/types";
import { Age } from "@/components/Age";
import { Chip } from "@/components/Chip";
import { Line } from "@/components/Lanes";
import { Panel } from "@/components/Panel";
import { duration, number, visible } from "@/format";
import { LimitsDialog } from "@/pages/run/queue/LimitsDialog";
import queueCss from "@/pages/run/queue/queue.module.css";
import { isOver } from "@/theme/chips";

const RULES = {
  tolerance: { name: "Queue length", asks: "Producers pause above the limit and resume at the lower mark." },
  staleness: { name: "Data staleness", asks: "Further data would exceed the limit before it is trained on." },
} as const;

function GateRow({ gate }: { gate: QueueAnswer["gates"][number] }) {
  const { name, asks } = RULES[gate.rule];
  const filled = gate.limit > 0 ? Math.min(1, gate.amount / gate.limit) : 0;
  return (
    <li data-gate={gate.rule} data-closed={gate.closed}>
      <div className={queueCss.gateHead}>
        <Chip tone={gate.closed ? "held" : "good"} sign={gate.closed ? "▲" : "✓"}>
          {gate.closed ? "pauses" : "open"}
        </Chip>
        <b>{name}</b>
        <span className="faint small">{asks}</span>
      </div>
      <Line
        words={`${name}: ${gate.condition}`}
        segments={[{ key: gate.rule, width: filled, fill: gate.closed ? "var(--held)" : "var(--good)" }]}
      />
      <code className={queueCss.gateWords}>{gate.condition}</code>
    </li>
  );
}

/** The backpressure conditions with their values, who set the limits, and when producers resume. */
export function WhyPaused({ run, queue }: { run: RunDetail; queue: QueueAnswer }) {
  const mayOperate = useMayOperate();
  const [isChanging, setChanging] = useState(false);
  const { paused, gates, since, set_by, resumes_in_seconds, trained_per_second, unit } = queue;
  const title = paused ? "Producers paused" : "Backpressure";
  const change = mayOperate && !isOver(run.status) && (
    <Button
      size="compact-sm"
      variant="default"
      title="Change tolerance, staleness and lease of the active run"
      onClick={() => setChanging(true)}
    >
      Change limits
    </Button>
  );
  return (
    <Panel title={title} note={paused ? "conditions that hold producers back" : "producers are running"} aside={change} className="span-6">
      {gates.length === 0 ? (
        <p className="soft">The trainer sets the batch size when it registers; until then producers never pause.</p>
      ) : (
        <ul className={queueCss.gates}>
          {gates.map((gate) => (
            <GateRow key={gate.rule} gate={gate} />
          ))}
        </ul>
      )}
      <dl className={queueCss.facts}>
        {since && (
          <>
            <dt>Since</dt>
            <dd>
              <Age at={since} suffix=" ago" />
            </dd>
          </>
        )}
        <dt>Throughput</dt>
        <dd>{trained_per_second === null ? "no batch in 2 min" : `${number(trained_per_second)} ${unit} per second`}</dd>
        {paused && (
          <>
            <dt>Resumes</dt>
            <dd data-resumes>
              {resumes_in_seconds === null
                ? "when a trainer leases batches again"
                : `in about ${duration(resumes_in_seconds)} at this rate`}
            </dd>
          </>
        )}
        {set_by && (
          <>
            <dt>Limit set by</dt>
            <dd className="anywhere">
              {visible(set_by.actor)}
              {set_by.is_initial ? " when the run was created, " : ", "}
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
