import { useQuery } from "@tanstack/react-query";
import { pipelineQuery } from "@/api/pipeline";
import { ErrorState } from "@/components/ErrorState";
import { Skeletons } from "@/components/Skeletons";
import { Flow } from "@/pages/run/pipeline/Flow";
import { BatchWay } from "@/pages/run/pipeline/BatchWay";
import { QueueLaw, WhoWaits } from "@/pages/run/pipeline/Waiting";
import { StepWaterfall, WorkerTimes } from "@/pages/run/pipeline/Workers";
import { useRun } from "@/pages/run/RunContext";
import { Verdict } from "@/pages/run/verdict/Verdict";

/** What holds the run up: how data flows through it, and where it stops. */
export function PipelineTab() {
  const { run, fleet } = useRun();
  const { data, error, refetch } = useQuery(pipelineQuery(run.name));
  if (error && !data) return <ErrorState title="The pipeline cannot be read" error={error} onRetry={() => void refetch()} />;
  if (!data) return <Skeletons heights={[130, 190, 220]} />;
  const running = (fleet?.workers ?? []).filter(({ state }) => state === "running");
  return (
    <div className="charts">
      <Verdict verdict={data.verdict} />
      <Flow run={run} pipeline={data} />
      <WhoWaits run={run} pipeline={data} />
      <QueueLaw pipeline={data} />
      <BatchWay pipeline={data} />
      {run.kind !== "outside" && <WorkerTimes run={run} workers={running} />}
      <StepWaterfall workers={running} />
    </div>
  );
}
