import type { Growth } from "@/api/deployment";
import { Age } from "@/components/Age";
import { Moment } from "@/components/Moment";
import { Panel } from "@/components/Panel";
import { Spark } from "@/components/Spark";
import { bytes } from "@/format";
import { anHour, foretold } from "@/pages/cluster/growth";
import css from "./cluster.module.css";

const DAY_SECONDS = 86_400;

/** Growth of the deployment, and the time until its disk is full at the current rate. */
export function GrowthPanel({ growth }: { growth: Growth }) {
  const { disk } = growth;
  const isSoon = disk.state === "below" || (disk.seconds_left != null && disk.seconds_left < DAY_SECONDS);
  return (
    <Panel
      title="Growth"
      note={
        growth.since ? (
          <>
            one-minute samples since <Age at={growth.since} suffix=" ago" />
          </>
        ) : undefined
      }
      className="span-6"
    >
      <p className={`${css.problem} small ${isSoon ? "held" : "soft"}`} data-forecast={disk.state}>
        {isSoon && <span aria-hidden="true">▲ </span>}
        {foretold(disk, growth.samples)}{" "}
        {disk.at && (
          <span className="faint">
            (<Moment at={disk.at} />)
          </span>
        )}
      </p>
      <dl className={css.facts}>
        <div>
          <dt>Database</dt>
          <dd>{anHour(growth.database_bytes_per_hour)}</dd>
          <dd>
            <Spark values={growth.database_bytes} label="Database size" />
          </dd>
        </div>
        <div>
          <dt>Free disk space</dt>
          <dd>{anHour(disk.per_hour)}</dd>
          <dd>
            <Spark values={growth.disk_free_bytes} label="Free disk space" />
          </dd>
        </div>
        <div>
          <dt>Write-ahead log written</dt>
          <dd>{growth.wal_bytes_per_hour == null ? "–" : `${bytes(growth.wal_bytes_per_hour)} per hour`}</dd>
        </div>
      </dl>
    </Panel>
  );
}
