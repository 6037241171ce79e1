import { Button, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { TAKES_OPERATOR, useMayOperate } from "@/api/session";
import type { WorkerRow, WorkerStacks } from "@/api/types";
import { fileName, save } from "@/charts/save";
import { Age } from "@/components/Age";
import { rolldeckCommand } from "@/components/commandToken";
import { SideSheet } from "@/components/Dialog";
import { EmptyState } from "@/components/EmptyState";
import { ErrorState } from "@/components/ErrorState";
import { RECORDED_IN_EVENTS } from "@/components/recordedIn";
import { utc, visible } from "@/format";
import { stacksQuery, useAskForStacks } from "@/pages/run/fleet/api";
import css from "./stacks.module.css";

const STATES: Record<Exclude<WorkerStacks["state"], "never">, [sign: string, text: string]> = {
  requested: ["◷", "requested: waiting for the worker"],
  answered: ["✓", "answered"],
  timeout: [
    "✕",
    "no response within 15 s: the worker is blocked in native code, or its fleet is down. Check its log; replacing the worker does not require a response.",
  ],
};

function textOf(run: string, found: WorkerStacks): string {
  const head = `# ${run}, worker ${found.worker} (${found.incarnation}), ${found.node}, ${found.process}, ${utc(found.answered_at)}`;
  return [head, "", ...found.lines.map(visible)].join("\n");
}

function Status({ found }: { found: WorkerStacks }) {
  if (found.state === "never") return null;
  const [sign, text] = STATES[found.state];
  return (
    <p className={`small ${found.state === "timeout" ? "held" : "soft"} anywhere`} role="status" data-stacks={found.state}>
      <span aria-hidden="true">{sign}</span> {text}
      {found.answered_at && (
        <>
          {" "}
          <Age at={found.answered_at} suffix=" ago" /> by {visible(found.incarnation)} on {visible(found.node)}, {visible(found.process)}
        </>
      )}
      {found.note && <span className="held"> · {visible(found.note)}</span>}
    </p>
  );
}

type Props = { run: string; worker: WorkerRow; onClose: () => void };

/** Stack traces of a worker's Python threads, captured on request. */
export default function StacksDrawer({ run, worker, onClose }: Props) {
  const mayOperate = useMayOperate();
  const [reason, setReason] = useState("");
  const { data, error } = useQuery(stacksQuery(run, worker.index));
  const ask = useAskForStacks(run);
  const waits = data?.state === "requested" || ask.isPending;
  return (
    <SideSheet onClose={onClose} size="xl" title={`Stacks of worker ${worker.index}`}>
      <form
        className={css.tools}
        onSubmit={(event) => {
          event.preventDefault();
          ask.mutate({ worker: worker.index, incarnation: worker.incarnation, reason });
        }}
      >
        <TextInput
          label="Reason"
          size="xs"
          className={css.reason}
          description={RECORDED_IN_EVENTS}
          value={reason}
          maxLength={2000}
          onChange={(event) => setReason(event.currentTarget.value)}
        />
        <Button
          className="beside-box"
          type="submit"
          size="xs"
          disabled={!mayOperate || waits}
          title={mayOperate ? undefined : TAKES_OPERATOR}
        >
          {waits ? "Capturing…" : "Capture stacks"}
        </Button>
        {data && data.lines.length > 0 && (
          <Button
            className="beside-box"
            size="xs"
            variant="default"
            onClick={() =>
              save(new Blob([textOf(run, data)], { type: "text/plain" }), fileName(`${run} worker ${worker.index} stacks`, "txt"))
            }
          >
            Download
          </Button>
        )}
      </form>
      {ask.error && <ErrorState title="Stacks not requested" error={ask.error} />}
      {error && <ErrorState title="Stacks unavailable" error={error} />}
      {data && <Status found={data} />}
      {data?.state === "never" && (
        <EmptyState
          title="No stacks captured yet"
          command={rolldeckCommand(`api POST runs/${run}/fleet/workers/${worker.index}/stacks incarnation=${worker.incarnation}`)}
          needs={{ scope: "user", run }}
        >
          Captures the current stack trace of each Python thread of the worker. It requires no access to the node and takes the worker a few
          milliseconds.
        </EmptyState>
      )}
      {data && data.lines.length > 0 && (
        <pre className={css.stacks} tabIndex={0} role="group" aria-label="Stacks by thread">
          {data.lines.map((line, at) => (
            // Lines have no key but their index.
            <span key={at} className={line.startsWith("Thread ") ? css.thread : line.startsWith("    ") ? css.source : undefined}>
              {visible(line)}
              {"\n"}
            </span>
          ))}
        </pre>
      )}
    </SideSheet>
  );
}
