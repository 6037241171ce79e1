import { useQuery } from "@tanstack/react-query";
import { pipelineQuery } from "@/api/pipeline";
import { ErrorState } from "@/components/ErrorState";
import { Panels } from "@/components/Panels";
import { Skeletons } from "@/components/Skeletons";
import { currentDiagnosis } from "@/pages/run/diagnosis/current";
import { Diagnosis } from "@/pages/run/diagnosis/Diagnosis";
import { Flow } from "@/pages/run/pipeline/Flow";
import { StepWaterfall, WorkerTimes } from "@/pages/run/pipeline/Workers";
import { useRun } from "@/pages/run/RunContext";

/** The data flow of the run and its bottleneck. */
export function PipelineTab() {
  const { run, fleet, diagnosis: live } = useRun();
  const { data, error, refetch } = useQuery(pipelineQuery(run.name));
  // The diagnosis and figures of one response; after a status change the live diagnosis wins.
  const diagnosis = currentDiagnosis(data?.diagnosis, run) ?? live;
  if (error && !data) return <ErrorState title="Pipeline unavailable" error={error} onRetry={() => void refetch()} />;
  if (!data) return <Skeletons heights={[130, 190, 220]} />;
  const running = (fleet?.workers ?? []).filter(({ state }) => state === "running");
  return (
    <Panels>
      {diagnosis && <Diagnosis diagnosis={diagnosis} />}
      <Flow run={run} pipeline={data} diagnosis={diagnosis ?? null} />
      {run.kind !== "outside" && <WorkerTimes run={run} workers={running} />}
      <StepWaterfall workers={running} />
    </Panels>
  );
}
