import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";
import { ErrorState } from "@/components/ErrorState";
import { Panels } from "@/components/Panels";
import { Skeletons } from "@/components/Skeletons";
import { usePartChangeFeed } from "@/live/changeFeed";
import { usePart } from "@/live/live";
import { useRun } from "@/pages/run/RunContext";
import { deliveriesQuery, EVERY_MS, ordersQuery, versionQuery, versionsQuery } from "@/pages/run/weights/api";
import { isHeldBack, withNewest } from "@/pages/run/weights/commands";
import { ReplicaTable } from "@/pages/run/weights/ReplicaTable";
import { VersionTable } from "@/pages/run/weights/VersionTable";
import { Waterfall } from "@/pages/run/weights/Waterfall";
import { WeightOrdersPanel } from "@/pages/run/weights/WeightOrders";

const NO_WORKERS: never[] = [];

/** Published weights and their distribution to workers. */
export function WeightsTab() {
  const { run, fleet } = useRun();
  const search = useSearch({ from: "/shell/runs/$name/weights" });
  const refetchInterval = usePartChangeFeed(
    `run:${run.name}`,
    "weights",
    EVERY_MS,
    ["versions", run.name],
    ["deliveries", run.name],
    ["weights-orders", run.name],
  );
  const pages = useInfiniteQuery({ ...versionsQuery(run.name), refetchInterval });
  const { data, error } = pages;
  const deliveries = useQuery({ ...deliveriesQuery(run.name), refetchInterval }).data ?? [];
  const orders = useQuery({ ...ordersQuery(run.name), refetchInterval, enabled: run.kind !== "outside" }).data;
  const newest = usePart(`run:${run.name}`, "weights")?.newest;
  const versions = withNewest(data?.pages.flatMap((page) => page.results) ?? [], newest);
  const listed = versions.find(({ id }) => id === search.version);
  const older = useQuery(versionQuery(run.name, search.version ?? 0, data !== undefined && search.version !== undefined && !listed)).data;
  if (error && !data) return <ErrorState title="Versions unavailable" error={error} />;
  if (!data) return <Skeletons heights={[320, 140]} />;
  // By default the newest version that any worker has reported.
  const reported = versions.find(({ epoch, step }) => deliveries.some((row) => row.epoch === epoch && row.step === step));
  const shown = listed ?? older ?? reported ?? versions[0];
  return (
    <Panels>
      {error && <ErrorState title="Versions not refreshed" error={error} />}
      <WeightOrdersPanel run={run} versions={versions} workers={fleet?.workers ?? NO_WORKERS} />
      <VersionTable run={run} orders={orders} versions={versions} deliveries={deliveries} open={shown?.id} pages={pages} />
      {shown && (
        <Waterfall
          version={shown}
          keptInstead={isHeldBack(shown, orders, run.epoch) ? (orders?.pinned_step ?? null) : null}
          deliveries={deliveries}
          workers={fleet?.workers ?? []}
        />
      )}
      <ReplicaTable workers={fleet?.workers ?? NO_WORKERS} />
    </Panels>
  );
}
