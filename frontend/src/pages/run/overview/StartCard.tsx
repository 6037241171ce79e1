import { Box, Button, List, Text } from "@mantine/core";
import { useLayoutEffect, useRef, useState } from "react";
import { Panel, TokenCommand } from "@/components/panels";
import { visible } from "@/format";
import { nextSteps, type StartStep, startSteps } from "@/pages/run/overview/startSteps";
import { useRun, useRunPart } from "@/pages/run/RunContext";

function Step({ step, isNext }: { step: StartStep; isNext: boolean }) {
  return (
    <List.Item
      aria-current={isNext ? "step" : undefined}
      c={step.isDone ? "var(--ink-soft)" : undefined}
      icon={
        <Text span c={step.isDone ? "var(--good)" : undefined} role="img" aria-label={step.isDone ? "Done" : "Open"}>
          {step.isDone ? "✓" : "○"}
        </Text>
      }
    >
      <b>{visible(step.title)}</b> <span className="soft small">{visible(step.note)}</span>
      {isNext && step.command && <TokenCommand command={step.command} needs={step.needs} />}
    </List.Item>
  );
}

/**
 * Next steps after a launch, until the first batch is trained.
 *
 * Once shown, the card keeps its height and stays until it is hidden: content below does not move by itself.
 */
export function StartCard() {
  const { run } = useRun();
  const fleet = useRunPart("fleet");
  const ledger = useRunPart("ledger");
  const steps = startSteps({ run, fleet, ledger }, location.origin);
  const [isKept, setKept] = useState(false);
  const [height, setHeight] = useState(0);
  const content = useRef<HTMLDivElement>(null);
  if (steps.length > 0 && !isKept) setKept(true);
  // Each state of the steps may have another height.
  useLayoutEffect(() => {
    setHeight((old) => Math.max(old, content.current?.offsetHeight ?? 0));
  }, [steps.length, steps.filter((step) => step.isDone).length]);
  if (!isKept) return null;
  const next = nextSteps(steps);
  const isOver = steps.length === 0;
  const note = isOver ? undefined : `${steps.filter((step) => step.isDone).length} of ${steps.length} steps done`;
  return (
    <Box mb="md">
      <Panel
        title={isOver ? "Training" : "Start training"}
        note={note}
        aside={
          isOver && (
            <Button size="compact-xs" variant="default" onClick={() => setKept(false)}>
              Hide
            </Button>
          )
        }
      >
        <div ref={content} style={{ minHeight: height || undefined }}>
          {isOver && (
            <p className="soft">{run.served_steps > 0 ? "The first batch was served to the trainer." : `The run is ${run.status}.`}</p>
          )}
          <List type="ordered" spacing="xs">
            {steps.map((step) => (
              <Step key={step.title} step={step} isNext={next.includes(step)} />
            ))}
          </List>
        </div>
      </Panel>
    </Box>
  );
}
