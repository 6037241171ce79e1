import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { QUEUE_MS, queueQuery } from "@/api/queue";
import type { useAsk } from "@/api/runs";
import type { QueuePart, RunDetail } from "@/api/types";
import { usePartNews } from "@/live/news";
import { drainText } from "@/pages/run/verbs";

const UNDO_MS = 15_000;

type Ask = ReturnType<typeof useAsk>;

/** For a while after a pause: the way back. */
function Undo({ ask }: { ask: Ask }) {
  return (
    <span className="undo" role="status">
      You paused it.{" "}
      <Button size="compact-xs" variant="default" data-undo onClick={() => ask.mutate({ verb: "resume", reason: "pause undone" })}>
        Undo
      </Button>
    </span>
  );
}

/** How long a drain will take. */
function Drain({ run, queue }: { run: RunDetail; queue: QueuePart | undefined }) {
  const refetchInterval = usePartNews(`run:${run.name}`, "queue", QUEUE_MS, ["queue", run.name]);
  const { data } = useQuery({ ...queueQuery(run.name), refetchInterval });
  return <span data-drain>{drainText(run, queue, data?.trained_per_second ?? null)}</span>;
}

/** What follows on what was asked: the way back from a pause, the end of a drain. */
export function Steering({ run, queue, ask }: { run: RunDetail; queue: QueuePart | undefined; ask: Ask }) {
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
      {run.status === "draining" && <Drain run={run} queue={queue} />}
    </>
  );
}
