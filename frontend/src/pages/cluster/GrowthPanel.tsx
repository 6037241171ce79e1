import type { Growth } from "@/api/deck";
import { Age } from "@/components/Age";
import { Moment } from "@/components/Moment";
import { Panel } from "@/components/Panel";
import { Spark } from "@/components/Spark";
import { bytes } from "@/format";
import { anHour, foretold } from "@/pages/cluster/growth";
import css from "./cluster.module.css";

const DAY_SECONDS = 86_400;

/** How the deck grows, and when its disk will be full at that rate. */
export function GrowthPanel({ growth }: { growth: Growth }) {
  const { disk } = growth;
  const isSoon = disk.state === "below" || (disk.seconds_left != null && disk.seconds_left < DAY_SECONDS);
  return (
    <Panel
      title="Growth"
      note={
        growth.since ? (
          <>
            samples of a minute, since <Age at={growth.since} suffix=" ago" />
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
            <Spark values={growth.database_bytes} label="Size of the database" />
          </dd>
        </div>
        <div>
          <dt>Free room on the disk</dt>
          <dd>{anHour(disk.per_hour)}</dd>
          <dd>
            <Spark values={growth.disk_free_bytes} label="Free room on the disk" />
          </dd>
        </div>
        <div>
          <dt>Write-ahead log written</dt>
          <dd>{growth.wal_bytes_per_hour == null ? "–" : `${bytes(growth.wal_bytes_per_hour)} an hour`}</dd>
        </div>
      </dl>
    </Panel>
  );
}
