import { Link } from "@tanstack/react-router";
import type { FragmentSummary } from "@/api/fragments";
import type { GroupQuery } from "@/api/groups";
import { Age } from "@/components/Age";
import { Table } from "@/components/Table";
import { bytes, number, shortId, visible } from "@/format";
import { listSearch } from "@/pages/run/trajectories/search";
import styles from "@/pages/run/trajectories/trajectories.module.css";
import { versionsText } from "@/pages/viewer/fragment";
import { GroupStateChip } from "@/pages/viewer/marks";

function Line({ run, fragment, query }: { run: string; fragment: FragmentSummary; query: GroupQuery }) {
  return (
    <tr className="opens" data-row data-fragment={fragment.id}>
      <td className={styles.what}>
        <Link
          to="/runs/$name/fragments/$fragment"
          params={{ name: run, fragment: String(fragment.id) }}
          className="strong"
          title={visible(fragment.slot)}
          data-open
        >
          {visible(shortId(fragment.slot))} · {number(fragment.number)}
        </Link>
        <div className={styles.under}>
          <span className="mono">#{fragment.id}</span>
          <span>{visible(fragment.environment)}</span>
          {!fragment.contiguous && fragment.number > 0 && <span title="Not contiguous with the previous fragment">discontinuity</span>}
        </div>
      </td>
      <td className="num">{number(fragment.steps)}</td>
      <td className="num" title={fragment.reward_sum === null ? "Too large to summarize in a list, or unreadable: open it" : undefined}>
        {number(fragment.reward_sum)}
      </td>
      <td className="num wide-only">
        {fragment.epoch}.{versionsText(fragment)}
      </td>
      <td className="wide-only">
        <Link
          to="/runs/$name/trajectories"
          params={{ name: run }}
          search={listSearch({ ...query, worker: [fragment.worker] })}
          className="strong"
          title={visible(fragment.worker)}
        >
          {visible(shortId(fragment.worker))}
        </Link>
      </td>
      <td className="wide-only">
        <GroupStateChip state={fragment.state} reason={fragment.drop_reason} step={fragment.step} />
      </td>
      <td className="num wide-only">{bytes(fragment.size_bytes)}</td>
      <td className="num soft">
        <Age at={fragment.received_at} />
      </td>
    </tr>
  );
}

/** Fragments of a fleet run, one per row. */
export function FragmentTable({ run, rows, query }: { run: string; rows: FragmentSummary[]; query: GroupQuery }) {
  return (
    <Table
      label="Fragments, newest first"
      columns={[
        {
          label: <>Env slot · fragment</>,
        },
        { label: "Steps", className: "num", title: "Env steps without padding" },
        { label: "Return", className: "num", title: "Sum of rewards" },
        { label: "Policy", className: "num wide-only" },
        { label: "Worker", className: "wide-only" },
        { label: "State", className: "wide-only" },
        { label: "Size", className: "num wide-only" },
        { label: "Age", className: "num" },
      ]}
    >
      {rows.map((fragment) => (
        <Line key={fragment.id} run={run} fragment={fragment} query={query} />
      ))}
    </Table>
  );
}
