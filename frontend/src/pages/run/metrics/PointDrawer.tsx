import { term } from "@/components/filter/suggest";
import "@/pages/run/queue/queue.css";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { batchQuery } from "@/api/queue";
import type { BatchItems, MetricAxis, RunDetail } from "@/api/types";
import { Age } from "@/components/Age";
import { SideSheet } from "@/components/Dialog";
import { EmptyState } from "@/components/EmptyState";
import { ErrorState } from "@/components/ErrorState";
import { Moment } from "@/components/Moment";
import { Skeletons } from "@/components/Skeletons";
import { clock, elapsed, number, policyStep, visible } from "@/format";
import { type PointBatch, type PointDetails, pointDetailsQuery } from "@/pages/run/metrics/pointDetails";
import { BatchChip } from "@/pages/run/queue/BatchTable";
import { trainerCommand } from "@/pages/run/words";
import { AnnotatePoint } from "./AnnotatePoint";
import classes from "./metrics.module.css";
import type { Picked } from "./search";

const ITEMS_SHOWN = 8;

type Props = { run: RunDetail; point: Picked; axis: MetricAxis; unit: string; onClose: () => void };

function titleOf({ metric, from, to }: Picked, axis: MetricAxis, unit: string): string {
  const words = { time: (x: number) => clock(x * 1000), elapsed, step: number, amount: number };
  const at = (x: number) => words[axis](x);
  const where = from === to ? at(to) : `${at(from)} to ${at(to)}`;
  if (axis === "elapsed") return `${visible(metric)} at ${where} ${unit}`;
  return `${visible(metric)} at ${axis === "time" ? "" : `${unit} `}${where}`;
}

function When({ details }: { details: PointDetails }) {
  const { began_at, ended_at, version } = details;
  return (
    <>
      <dt>Received</dt>
      <dd>
        <Moment at={began_at} />
        {began_at !== ended_at && (
          <>
            {" "}
            to <Moment at={ended_at} />
          </>
        )}
        , <Age at={ended_at} suffix=" ago" />
      </dd>
      {!version && (
        <>
          <dt>Weights</dt>
          <dd>none published yet</dd>
        </>
      )}
    </>
  );
}

/** The first items of a batch, with scores and links. */
function Items({ run, items }: { run: RunDetail; items: BatchItems["results"] }) {
  const isGroups = run.kind !== "fleet";
  if (items.length === 0) return <p className="faint small">The batch was released; its items are back in the queue.</p>;
  return (
    <table className="table" aria-label={isGroups ? "Groups of the batch" : "Fragments of the batch"}>
      <thead>
        <tr>
          <th scope="col">{isGroups ? "Group" : "Fragment"}</th>
          <th scope="col">Environment</th>
          <th scope="col" className="num">
            {isGroups ? "Score" : "Steps"}
          </th>
          <th scope="col" className="num">
            Weights
          </th>
        </tr>
      </thead>
      <tbody>
        {items.slice(0, ITEMS_SHOWN).map((item) => (
          <tr key={item.position}>
            <td>
              {isGroups ? (
                <Link to="/runs/$name/groups/$group" params={{ name: run.name, group: String(item.id) }} className="strong">
                  {item.id}
                </Link>
              ) : (
                <Link to="/runs/$name/fragments/$fragment" params={{ name: run.name, fragment: String(item.id) }} className="strong">
                  {item.id}
                </Link>
              )}
            </td>
            <td className="anywhere">{visible(item.environment)}</td>
            <td className="num">{number(isGroups ? item.score_mean : item.steps)}</td>
            <td className="num" title={item.staleness === null ? undefined : `${number(item.staleness)} versions behind when leased`}>
              {policyStep(item.policy_step)}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function NewestBatch({ run, batch }: { run: RunDetail; batch: PointBatch }) {
  const { data, error } = useQuery(batchQuery(run.name, batch.id));
  if (error && !data) return <ErrorState title="Batch unavailable" error={error} />;
  if (!data) return <Skeletons heights={[160]} />;
  return (
    <>
      <h3>In batch {number(batch.ordinal)}</h3>
      <Items run={run} items={data.results} />
      <p className="small">
        {data.results.length > ITEMS_SHOWN && <span className="faint">{number(data.results.length - ITEMS_SHOWN)} more items · </span>}
        <Link to="/runs/$name/trajectories" params={{ name: run.name }} search={{ q: term("batch", batch.id) }}>
          View all in Samples
        </Link>
      </p>
    </>
  );
}

function Batches({ run, details }: { run: RunDetail; details: PointDetails }) {
  const { batches, handed_out } = details;
  const newest = batches[0];
  if (!newest)
    return (
      <EmptyState
        title="No batch leased before this point"
        command={trainerCommand(run, location.origin)}
        needs={{ scope: "trainer", run: run.name }}
      >
        The first batch goes to the first trainer that requests one.
      </EmptyState>
    );
  return (
    <>
      <h3>Batches leased at this point</h3>
      {handed_out > 1 && (
        <p className="small soft">
          {number(handed_out)} in the time range of this point
          {handed_out > batches.length ? `; the newest ${batches.length} are shown` : ""}. Zoom in for single batches.
        </p>
      )}
      <ul className={classes.batches}>
        {batches.map((batch) => (
          <li key={batch.id}>
            <Link to="/runs/$name/queue" params={{ name: run.name }} search={{ batch: batch.id }} className={classes.batch}>
              batch {number(batch.ordinal)}
            </Link>
            <BatchChip batch={batch} />
            {batch.with_trainer && (
              <span className="tag" title="Held by a trainer in the time range of this point">
                active
              </span>
            )}
            <span className="faint small">
              leased <Moment at={batch.leased_at} />
              {batch.trainer ? ` to ${visible(batch.trainer)}` : ""}, weights {batch.epoch}.{policyStep(batch.policy_step)}
            </span>
          </li>
        ))}
      </ul>
      <NewestBatch key={newest.id} run={run} batch={newest} />
    </>
  );
}

/** Details of a chart point: its weights and batches, and their contents. */
export default function PointDrawer({ run, point, axis, unit, onClose }: Props) {
  const { data, error } = useQuery(pointDetailsQuery(run.name, { name: point.metric, axis, from: point.from, to: point.to }));
  return (
    <SideSheet onClose={onClose} size="md" title={titleOf(point, axis, unit)} isBeside>
      {error && <ErrorState title="Point details unavailable" error={error} />}
      {!data && !error && <Skeletons heights={[70, 120, 220]} />}
      {data && (
        <>
          <dl className="facts">
            <When details={data} />
            {data.version && (
              <>
                <dt>Weights</dt>
                <dd>
                  <Link to="/runs/$name/weights" params={{ name: run.name }} search={{ version: data.version.id }}>
                    version {data.version.epoch}.{policyStep(data.version.step)}
                  </Link>
                  , published <Moment at={data.version.published_at} />
                </dd>
              </>
            )}
            <dt>Related</dt>
            <dd>
              <Link to="/runs/$name/logs" params={{ name: run.name }} search={{ at: Date.parse(data.ended_at) / 1000 }}>
                Events and logs at this time
              </Link>
            </dd>
          </dl>
          <AnnotatePoint run={run.name} details={data} />
          <Batches run={run} details={data} />
        </>
      )}
    </SideSheet>
  );
}
