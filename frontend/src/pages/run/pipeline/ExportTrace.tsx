import { Button, Tooltip } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { batchesQuery } from "@/api/queue";
import { fileName, save } from "@/charts/save";
import { ErrorState } from "@/components/ErrorState";
import { live } from "@/live/live";
import { traceOf } from "@/pages/run/pipeline/trace";
import { useRun } from "@/pages/run/RunContext";
import { deliveriesQuery, versionsQuery } from "@/pages/run/weights/api";

/** Export a time trace of the run for ui.perfetto.dev, which opens it locally without uploading. */
export function ExportTrace() {
  const { run, fleet, events } = useRun();
  const queries = useQueryClient();
  const trace = useMutation({
    mutationFn: async () => {
      const [batches, versions, deliveries] = await Promise.all([
        queries.fetchInfiniteQuery(batchesQuery(run.name, undefined)),
        queries.fetchInfiniteQuery(versionsQuery(run.name)),
        queries.fetchQuery(deliveriesQuery(run.name)),
      ]);
      const sources = {
        run,
        events,
        deliveries,
        batches: batches.pages.flatMap((page) => page.results),
        versions: versions.pages.flatMap((page) => page.results),
        workers: fleet?.workers ?? [],
      };
      const text = JSON.stringify(traceOf({ ...sources, now: live.serverNow() }));
      save(new Blob([text], { type: "application/json" }), fileName(`${run.name}.trace`, "json"));
    },
  });
  return (
    <>
      <Tooltip label="Exports recent batches, weight deliveries, events and the workers' mean step as a file for ui.perfetto.dev.">
        <Button size="compact-sm" variant="default" loading={trace.isPending} onClick={() => trace.mutate()}>
          Export trace
        </Button>
      </Tooltip>
      {trace.error && <ErrorState title="Trace not exported" error={trace.error} />}
    </>
  );
}
