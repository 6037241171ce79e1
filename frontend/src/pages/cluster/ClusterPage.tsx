import { Age } from "@/components/Age";
import { Chip } from "@/components/Chip";
import { ErrorState } from "@/components/ErrorState";
import { useNow } from "@/components/now";
import { Panel } from "@/components/Panel";
import { Panels } from "@/components/Panels";
import { Skeletons } from "@/components/Skeletons";
import { dayAndClock, number } from "@/format";
import { useCluster } from "@/live/deployment";
import { useIsOutdated } from "@/live/live";
import { Exits } from "@/pages/cluster/Exits";
import { Machines } from "@/pages/cluster/Machines";
import { NoticePanel } from "@/pages/cluster/NoticePanel";
import { healthOf } from "@/pages/cluster/parts";
import { Services } from "@/pages/cluster/Services";
import css from "./cluster.module.css";

/** The cluster is polled every 5 s; without data for this long it counts as stale. */
const SILENT_MS = 20_000;

/** The parts of the deployment and their health. */
export function ClusterPage() {
  const isOutdated = useIsOutdated();
  const { cluster: data, refused } = useCluster();
  const now = useNow();
  const found = data && healthOf(data, isOutdated);
  return (
    <>
      <div className="page-title">
        <h1>Cluster</h1>
        {data && found && (
          <Chip tone={found.tone} sign={found.sign} data-health={found.tone} role="status">
            <span className={css.health}>{found.text}</span>
          </Chip>
        )}
        <span className="spacer" />
        {data && (
          <span className="faint tiny">
            updated <Age at={data.at} suffix=" ago" />
          </span>
        )}
      </div>
      {refused && !data && <ErrorState title="Cluster unavailable" error={refused} />}
      {data && now - Date.parse(data.at) > SILENT_MS && (
        <ErrorState title="Cluster status is out of date" error={`Last updated ${dayAndClock(data.at)}.`} />
      )}
      {!data && !refused && <Skeletons heights={[260, 260, 100]} />}
      {data && (
        <Panels>
          <Panel
            title="Machines"
            note={`with their processes; heartbeat every ${number(data.process_word_seconds)} s, exited processes are listed for an hour`}
            className="span-12"
          >
            <Machines cluster={data} />
            {data.ray.state === "absent" && (
              <p className="soft small">
                Outside runs need no Ray cluster. Set <code>RAY_ADDRESS</code> to launch fleets on one.
              </p>
            )}
            <Exits exits={data.exits} />
          </Panel>
          <Panel title="Services" note="checked every 5 s while this page is open" className="span-12">
            <Services cluster={data} />
          </Panel>
          <NoticePanel />
        </Panels>
      )}
    </>
  );
}
