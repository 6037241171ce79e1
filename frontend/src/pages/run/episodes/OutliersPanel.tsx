import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { groupsQuery } from "@/api/groups";
import type { RunDetail } from "@/api/types";
import { Age } from "@/components/Age";
import { ErrorState } from "@/components/ErrorState";
import { Panel } from "@/components/Panel";
import { Skeletons } from "@/components/Skeletons";
import { Table } from "@/components/Table";
import { count, number, percent, policyStep, visible } from "@/format";
import { type EpisodeOutliers, episodeOutliersQuery } from "@/pages/run/episodes/api";
import { EpisodeMatches } from "@/pages/run/episodes/EpisodeMatches";
import { unlikeText } from "@/pages/run/episodes/heat";
import { isOver } from "@/theme/chips";

const route = getRouteApi("/shell/runs/$name/episodes");
const SHOWN = 12;

/** Deviating workers first, then by index. */
function inOrder(workers: EpisodeOutliers["workers"]) {
  return [...workers].sort((a, b) => b.deviations.length - a.deviations.length || a.worker - b.worker);
}

function Workers({ run, workers }: { run: RunDetail; workers: EpisodeOutliers["workers"] }) {
  const unlike = workers.filter(({ deviations }) => deviations.length > 0).length;
  return (
    <>
      <p className="small soft" role="status">
        {workers.length < 4
          ? "Fewer than four workers: too few to detect outliers."
          : unlike === 0
            ? `No outliers among ${number(workers.length)} workers.`
            : `${number(unlike)} of ${number(workers.length)} workers ${unlike === 1 ? "is an outlier" : "are outliers"}.`}
      </p>
      <Table
        label="Episodes by worker"
        columns={[
          "Worker",
          { label: "Episodes", className: "num" },
          { label: "Return", className: "num" },
          { label: "Length", className: "num" },
          { label: "Aborted", className: "num" },
          "Deviation",
        ]}
      >
        {inOrder(workers)
          .slice(0, SHOWN)
          .map((row) => (
            <tr key={row.worker} data-unlike={row.deviations.length > 0 || undefined}>
              <td>
                <Link to="/runs/$name/fleet" params={{ name: run.name }} search={{ worker: row.worker }}>
                  w{row.worker}
                </Link>
              </td>
              <td className="num">{number(row.episodes)}</td>
              <td className="num">{number(row.return_mean)}</td>
              <td className="num">{number(row.length_mean)}</td>
              <td className="num">{percent(row.aborted_share)}</td>
              <td>
                {row.deviations.length === 0 ? (
                  <span className="faint">none</span>
                ) : (
                  <span className="held">
                    <span aria-hidden="true">▲ </span>
                    {row.deviations.map(unlikeText).join(", ")}
                  </span>
                )}
              </td>
            </tr>
          ))}
      </Table>
      {workers.length > SHOWN && (
        <p className="faint small">
          {number(workers.length - SHOWN)} more workers without deviation.{" "}
          <Link to="/runs/$name/fleet" params={{ name: run.name }}>
            All workers
          </Link>
        </p>
      )}
    </>
  );
}

const ORDERS = [
  ["score", "Highest scores"],
  ["-score", "Lowest scores"],
  ["length", "Longest"],
] as const;

/** The groups at one end of the distribution, with links to the viewer. */
function Groups({ run, sort, title }: { run: RunDetail; sort: string; title: string }) {
  const { data, error } = useQuery(groupsQuery(run.name, { sort }, undefined, 5));
  if (error) return <ErrorState title="Groups unavailable" error={error} />;
  return (
    <Table
      label={title}
      columns={[
        { label: title },
        { label: "Score", className: "num" },
        { label: "Tokens", className: "num" },
        { label: "Version", className: "num" },
        { label: "Received", className: "num" },
      ]}
    >
      {data?.results.map((group) => (
        <tr key={group.id} data-group={group.id}>
          <td>
            <Link
              to="/runs/$name/groups/$group"
              params={{ name: run.name, group: String(group.id) }}
              search={{ sort }}
              className="strong clipped"
            >
              {group.excerpt ? visible(group.excerpt) : `Group ${group.id}`}
            </Link>
          </td>
          <td className="num">{number(group.score_mean)}</td>
          <td className="num">{count(group.longest_tokens)}</td>
          <td className="num">{group.policy_step === null ? "–" : policyStep(group.policy_step)}</td>
          <td className="num">
            <Age at={group.received_at} suffix=" ago" />
          </td>
        </tr>
      ))}
    </Table>
  );
}

/** Outlier workers and extreme episodes of the period. */
export function OutliersPanel({ run }: { run: RunDetail }) {
  const { span = 300 } = route.useSearch();
  const { data, error } = useQuery(episodeOutliersQuery(run.name, span, !isOver(run.status)));
  const isOfFleet = run.kind === "fleet";
  return (
    <>
      <Panel title="Workers" note="training episodes of the selected period" className="span-12">
        {error && <ErrorState title="Worker comparison unavailable" error={error} />}
        {!data && !error && <Skeletons heights={[120]} />}
        {data && data.workers.length === 0 && <p className="faint small">No training episodes finished in this period.</p>}
        {data && data.workers.length > 0 && <Workers run={run} workers={data.workers} />}
      </Panel>
      {isOfFleet ? (
        <Panel title="Extremes" note="of the selected period" className="span-12">
          {data && data.extremes.length === 0 && <p className="faint small">No episodes finished in this period.</p>}
          {data && data.extremes.length > 0 && <EpisodeMatches run={run} matches={data.extremes} label="Extreme episodes" value="Value" />}
        </Panel>
      ) : (
        <Panel title="Extremes" note="groups of the entire run" className="span-12">
          <div className="extremes">
            {ORDERS.map(([sort, title]) => (
              <Groups key={sort} run={run} sort={sort} title={title} />
            ))}
          </div>
        </Panel>
      )}
    </>
  );
}
