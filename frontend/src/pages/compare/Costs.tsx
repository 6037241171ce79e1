import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type RunCost, runCostsQuery } from "@/api/compare";
import { lineStyleAt } from "@/charts/lineStyles";
import { Swatch } from "@/charts/Swatch";
import { ErrorState } from "@/components/ErrorState";
import { Panel } from "@/components/Panel";
import { Skeletons } from "@/components/Skeletons";
import { Table } from "@/components/Table";
import { count, finePercent, number, visible } from "@/format";
import css from "./compare.module.css";
import { rateOf, reasonsOf, shareOf } from "./costs";

const HOUR_SECONDS = 3600;

function Known({ value, unit }: { value: number | null; unit?: string }) {
  if (value === null) return <span className="faint">unknown</span>;
  return (
    <>
      {count(value)}
      {unit && <span className="faint tiny"> {unit}</span>}
    </>
  );
}

function Items({ items, cost }: { items: number; cost: RunCost }) {
  const share = shareOf(items, cost);
  return (
    <td className="num">
      {number(items)}
      <div className="faint tiny">{share === null ? "" : finePercent(share)}</div>
    </td>
  );
}

/** One row per run: outcomes of its data, and the worker time spent. */
export function Costs({ runs, places }: { runs: string[]; places: Map<string, number> }) {
  const { data, error, isPending } = useQuery({ ...runCostsQuery(runs), enabled: runs.length > 0 });
  if (error) return <ErrorState title="Ledger and cost unavailable" error={error} />;
  if (isPending || !data) return runs.length > 0 ? <Skeletons heights={[160]} /> : null;
  const reasons = reasonsOf(data);
  return (
    <Panel title="Ledger and cost" note="outcomes of all accepted data, and the resources spent">
      <Table
        label="Ledger and cost of the runs"
        role="region"
        tableClass={css.table}
        columns={[
          { label: "Run", className: css.fixed },
          { label: "Accepted", className: "num" },
          { label: "Served", className: "num" },
          ...reasons.map((reason) => ({ label: <>Dropped: {visible(reason).replaceAll("_", " ")}</>, className: "num" })),
          { label: "Tokens served", className: "num", title: "In acknowledged batches" },
          { label: "Worker hours", className: "num", title: "Total lifetime of all workers, from their first and last reports" },
          { label: "GPU hours", className: "num", title: "Worker seconds times the GPUs reserved per worker" },
          { label: "Served per worker hour", className: "num" },
          { label: "Tokens per worker hour", className: "num" },
          { label: "Tokens per GPU second", className: "num" },
        ]}
      >
        {data.map((cost) => (
          <tr key={cost.run} data-cost={cost.run}>
            <th scope="row" className={css.fixed}>
              <Swatch look={lineStyleAt(places.get(cost.run) ?? 0)} />{" "}
              <Link to="/runs/$name/queue" params={{ name: cost.run }} className="strong">
                {cost.run}
              </Link>
            </th>
            <td className="num">
              {number(cost.ledger.accepted)} <div className="faint tiny">{cost.unit}</div>
            </td>
            <Items items={cost.ledger.served} cost={cost} />
            {reasons.map((reason) => (
              <Items key={reason} items={cost.ledger.dropped[reason] ?? 0} cost={cost} />
            ))}
            <td className="num">
              <Known value={cost.served_tokens} />
            </td>
            <td className="num">
              <Known value={rateOf(cost.worker_seconds, HOUR_SECONDS)} unit="h" />
            </td>
            <td className="num">
              <Known value={rateOf(cost.gpu_seconds, HOUR_SECONDS)} unit="h" />
            </td>
            <td className="num">
              <Known value={rateOf(cost.ledger.served, cost.worker_seconds, HOUR_SECONDS)} unit={cost.unit} />
            </td>
            <td className="num">
              <Known value={rateOf(cost.served_tokens, cost.worker_seconds, HOUR_SECONDS)} />
            </td>
            <td className="num">
              <Known value={rateOf(cost.served_tokens, cost.gpu_seconds)} />
            </td>
          </tr>
        ))}
      </Table>
    </Panel>
  );
}
