import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { BESIDE_MS, environmentsQuery, QUEUE_MS, queueQuery } from "@/api/queue";
import { ErrorState } from "@/components/ErrorState";
import { onDemand } from "@/components/onDemand";
import { Panels } from "@/components/Panels";
import { Skeletons } from "@/components/Skeletons";
import { usePartChangeFeed } from "@/live/changeFeed";
import { BatchTable } from "@/pages/run/queue/BatchTable";
import { namesOf } from "@/pages/run/queue/batches";
import { Depth } from "@/pages/run/queue/Depth";
import { Ledger } from "@/pages/run/queue/Ledger";
import { Preview } from "@/pages/run/queue/Preview";
import { QueueChart } from "@/pages/run/queue/QueueChart";
import { WhyPaused } from "@/pages/run/queue/WhyPaused";
import { useRun } from "@/pages/run/RunContext";

const BatchDrawer = onDemand(() => import("@/pages/run/queue/BatchDrawer"), "default");

/** The queue, the next batch, and all batches of the run. One response has all figures, so that they are of one moment. */
export function QueueTab() {
  const { run } = useRun();
  const { batch } = useSearch({ from: "/shell/runs/$name/queue" });
  const navigate = useNavigate({ from: "/runs/$name/queue" });
  const topic = `run:${run.name}` as const;
  const { data, error } = useQuery({
    ...queueQuery(run.name),
    refetchInterval: usePartChangeFeed(topic, "queue", QUEUE_MS, ["queue", run.name]),
  });
  const refetchInterval = usePartChangeFeed(topic, "queue", BESIDE_MS, ["environments", run.name], ["batches", run.name]);
  const environments = useQuery({ ...environmentsQuery(run.name), refetchInterval, enabled: run.kind !== "fleet" });
  const names = namesOf(environments.data);
  const close = () => void navigate({ search: (old) => ({ ...old, batch: undefined }) });
  // Panels that are shown late would move those below them.
  if (!data && !error) return <Skeletons heights={[110, 150, 180, 330]} />;
  return (
    <Panels data-at={data?.at}>
      <Ledger run={run} ledger={data?.ledger} />
      {error && <ErrorState title="Queue unavailable" error={error} />}
      {data && <WhyPaused run={run} queue={data} />}
      {data && <Depth queue={data} />}
      {data?.next_batch && <Preview queue={data} preview={data.next_batch} names={names} />}
      <QueueChart run={run} queue={data} className={run.kind === "fleet" ? "span-12" : "span-6"} />
      <BatchTable run={run} names={names} rereadMs={refetchInterval} />
      {batch && <BatchDrawer key={batch} run={run} names={names} id={batch} onClose={close} />}
    </Panels>
  );
}
