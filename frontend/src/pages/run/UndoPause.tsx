import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { QUEUE_MS, queueQuery } from "@/api/queue";
import type { useAsk } from "@/api/runs";
import type { RunDetail } from "@/api/types";
import { usePartChangeFeed } from "@/live/changeFeed";
import runCss from "@/pages/run/run.module.css";
import { drainText } from "@/pages/run/verbs";

const UNDO_MS = 15_000;

type Ask = ReturnType<typeof useAsk>;

/** Undo button shown for a while after a pause. */
function Undo({ ask }: { ask: Ask }) {
  return (
    <span className={runCss.undo} role="status">
      Paused by you.{" "}
      <Button size="compact-xs" variant="default" data-undo onClick={() => ask.mutate({ verb: "resume", reason: "pause undone" })}>
        Undo
      </Button>
    </span>
  );
}

/** The estimated time of a drain. */
function Drain({ run }: { run: RunDetail }) {
  const refetchInterval = usePartChangeFeed(`run:${run.name}`, "queue", QUEUE_MS, ["queue", run.name]);
  const { data } = useQuery({ ...queueQuery(run.name), refetchInterval });
  return <span data-drain>{drainText(run, data)}</span>;
}

/** Follow-up of a verb: undo of a pause, progress of a drain. */
export function UndoPause({ run, ask }: { run: RunDetail; ask: Ask }) {
  const pausedHere = ask.isSuccess && ask.variables.verb === "pause" && run.status === "paused";
  const [isFresh, setFresh] = useState(false);
  useEffect(() => {
    if (!pausedHere) return setFresh(false);
    setFresh(true);
    const timer = setTimeout(() => setFresh(false), UNDO_MS);
    return () => clearTimeout(timer);
  }, [pausedHere, ask.submittedAt]);
  return (
    <>
      {pausedHere && isFresh && <Undo ask={ask} />}
      {run.status === "draining" && <Drain run={run} />}
    </>
  );
}
