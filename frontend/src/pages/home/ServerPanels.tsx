import { Button } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { Cluster } from "@/api/deployment";
import { ErrorState } from "@/components/ErrorState";
import { Panel } from "@/components/Panel";
import { Skeletons } from "@/components/Skeletons";
import { bytes, number } from "@/format";
import { useCluster } from "@/live/deployment";
import { useIsOutdated } from "@/live/live";
import { healthOf, share } from "@/pages/cluster/parts";
import css from "./home.module.css";

const DISK_TIGHT = 0.9;

function usage(cluster: Cluster): [string, string][] {
  const { ray, storage, database } = cluster;
  const alive = ray.nodes.filter((node) => node.alive);
  const sum = (name: "cpus" | "cpus_used" | "gpus" | "gpus_used") => alive.reduce((total, node) => total + node[name], 0);
  const reserved = (used: number, all: number) => (all > 0 ? `${number(used)} of ${number(all)}` : "none");
  const used = storage.total_bytes != null && storage.free_bytes != null ? storage.total_bytes - storage.free_bytes : null;
  const isTight = (share(used, storage.total_bytes) ?? 0) > DISK_TIGHT;
  return [
    ["GPUs reserved", alive.length > 0 ? reserved(sum("gpus_used"), sum("gpus")) : "–"],
    ["CPUs reserved", alive.length > 0 ? reserved(sum("cpus_used"), sum("cpus")) : "–"],
    ["Connections", `${number(database.connections)} of ${number(database.connections_at_most)}`],
    ["Disk free", storage.free_bytes == null ? "–" : `${bytes(storage.free_bytes)}${isTight ? " ▲" : ""}`],
  ];
}

/** Health and usage of the deployment's parts. */
function ClusterStrip() {
  const isOutdated = useIsOutdated();
  const { cluster: data, refused: error } = useCluster();
  const found = data && healthOf(data, isOutdated);
  return (
    <Panel
      title="Cluster"
      aside={
        <Button component={Link} to="/cluster" size="compact-sm" variant="default">
          View cluster
        </Button>
      }
    >
      {error && !data && <ErrorState title="Cluster unavailable" error={error} />}
      {!data && !error && <Skeletons heights={[64]} />}
      {data && found && (
        <>
          <p className={css.said} data-cluster={found.tone}>
            <span className={`chip-sign tone-${found.tone} ${css.sign}`} aria-hidden="true">
              {found.sign}
            </span>
            {found.text}
          </p>
          <dl className={css.usage}>
            {usage(data).map(([term, value]) => (
              <div key={term}>
                <dt>{term}</dt>
                <dd>{value}</dd>
              </div>
            ))}
          </dl>
        </>
      )}
    </Panel>
  );
}

/** The panel below the runs: the cluster. */
export function ServerPanels() {
  return (
    <div className={css.around}>
      <ClusterStrip />
    </div>
  );
}
