import { Button } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { AuditRow } from "@/api/audit";
import type { Cluster } from "@/api/deployment";
import { Age } from "@/components/Age";
import { ErrorState } from "@/components/ErrorState";
import { LongText } from "@/components/LongText";
import { Panel } from "@/components/Panel";
import { Skeletons } from "@/components/Skeletons";
import { bytes, number, visible } from "@/format";
import { useCluster } from "@/live/deployment";
import { useIsOutdated, usePart, useTopicError } from "@/live/live";
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

function ChangeLine({ row }: { row: AuditRow }) {
  return (
    <li>
      <b className="anywhere">{visible(row.actor_name)}</b>
      <span className="anywhere">
        {row.run && (
          <>
            <Link to="/runs/$name" params={{ name: row.run }}>
              {row.run}
            </Link>{" "}
            <span className="faint">·</span>{" "}
          </>
        )}
        <LongText text={row.message} />
        {row.reason && <span className="soft"> “{visible(row.reason)}”</span>}
      </span>
      <span className="soft nowrap">
        <Age at={row.at} suffix=" ago" />
      </span>
    </li>
  );
}

/** The latest changes by users and tokens. */
function Lately() {
  const data = usePart("audit", "audit")?.recent;
  const error = useTopicError("audit")?.detail;
  return (
    <Panel
      title="Recent changes"
      note="by users and tokens"
      aside={
        <Button size="compact-sm" variant="default" renderRoot={(props) => <Link to="/audit" search={{ people: "1" }} {...props} />}>
          All changes
        </Button>
      }
    >
      {error && !data && <ErrorState title="Changes unavailable" error={error} />}
      {!data && !error && <Skeletons heights={[64]} />}
      {data?.length === 0 && <p className="faint small">No changes yet.</p>}
      {data && data.length > 0 && (
        <ul className={css.recent}>
          {data.map((row) => (
            <ChangeLine key={row.id} row={row} />
          ))}
        </ul>
      )}
    </Panel>
  );
}

/** The panels beside the runs: cluster and recent changes. */
export function ServerPanels() {
  return (
    <div className={css.around}>
      <Lately />
      <ClusterStrip />
    </div>
  );
}
