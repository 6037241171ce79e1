import { SegmentedControl, TextInput } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { Age } from "@/components/Age";
import { EmptyState } from "@/components/EmptyState";
import { ErrorState } from "@/components/ErrorState";
import { ShowMore } from "@/components/ShowMore";
import { Skeletons } from "@/components/Skeletons";
import { Table } from "@/components/Table";
import { number, percent, visible } from "@/format";
import { ENVIRONMENT_KINDS, type EnvironmentKind, type KnownEnvironment, knownEnvironmentsQuery } from "@/pages/environments/api";
import { EnvironmentDrawer } from "@/pages/environments/EnvironmentDrawer";
import { KINDS, windowText } from "@/pages/environments/words";
import { preferences } from "@/preferences";
import css from "./environments.module.css";

function Line({ row, onOpen }: { row: KnownEnvironment; onOpen: () => void }) {
  return (
    <tr className="opens" data-row data-environment={row.name}>
      <td className={css.name}>
        <button type="button" className="row-open" data-open onClick={onOpen}>
          {visible(row.name)}
        </button>
        {row.denied && (
          <span className="tag" title={visible(row.denied.reason)}>
            denied
          </span>
        )}
        {row.presets.map((preset) => (
          <span key={preset} className="tag" title="Preset for this environment">
            {preset}
          </span>
        ))}
        <div className="narrow-only faint tiny">{KINDS[row.kind].label}</div>
      </td>
      <td className="wide-only">
        <span className="tag" title={KINDS[row.kind].meaning}>
          {KINDS[row.kind].label}
        </span>
      </td>
      <td className="num">
        {row.runs === 0 ? <span className="faint">never</span> : number(row.runs)}
        {row.active_runs > 0 && <span className="faint small wide-only"> · {number(row.active_runs)} active</span>}
      </td>
      <td className="nowrap soft wide-only">{row.last_seen_at ? <Age at={row.last_seen_at} suffix=" ago" /> : "–"}</td>
      <td className="num wide-only">
        {number(row.per_hour)}
        {row.per_hour !== null && <span className="faint small"> {KINDS[row.kind].unit}</span>}
      </td>
      <td className="num">{number(row.reward_mean)}</td>
      <td className="num wide-only">{percent(row.zero_variance_share)}</td>
    </tr>
  );
}

export function EnvironmentsPage() {
  const { q = "", kind, of, name } = useSearch({ from: "/shell/environments" });
  const navigate = useNavigate({ from: "/environments" });
  const list = useInfiniteQuery(knownEnvironmentsQuery(q, kind, preferences().rows));
  const rows = list.data?.pages.flatMap(({ results }) => results) ?? [];
  const look = (changes: { q?: string; kind?: EnvironmentKind }) =>
    void navigate({ search: (now) => ({ ...now, ...changes }), replace: true });
  const [first] = list.data?.pages ?? [];
  return (
    <>
      <div className="page-title">
        <h1>Environments</h1>
        <span className="soft small">Registered environments and those that runs have used.</span>
      </div>
      <section className="panel" aria-label="Environments by name">
        <div className={css.bar}>
          <TextInput
            size="xs"
            aria-label="Part of the name"
            placeholder="Part of the name"
            value={q}
            data-filter
            onChange={(event) => look({ q: event.currentTarget.value || undefined })}
          />
          <SegmentedControl
            size="xs"
            aria-label="Kind"
            value={kind ?? "all"}
            data={["all", ...ENVIRONMENT_KINDS]}
            onChange={(value) => look({ kind: ENVIRONMENT_KINDS.find((each) => each === value) })}
          />
          <span className="spacer" />
          {first && <span className={`faint tiny ${css.window}`}>{windowText(first)}</span>}
        </div>
        {list.isPending && <Skeletons heights={[320]} />}
        {list.isError && <ErrorState title="Environments unavailable" error={list.error} onRetry={() => void list.refetch()} />}
        {list.isSuccess && rows.length === 0 && (
          <EmptyState
            title="No matching environments"
            command="export ROLLDECK_ENVIRONMENTS=module:my_lab.mazes:Maze"
            action={<Link to="/environments">All environments</Link>}
          >
            Custom environments become available once an administrator registers them; external ones appear when they register themselves.
          </EmptyState>
        )}
        {rows.length > 0 && (
          <Table
            columns={[
              "Environment",
              { label: "Kind", className: "wide-only" },
              { label: "Runs", className: "num" },
              { label: "Last seen", className: "wide-only" },
              { label: "Per hour", className: "num wide-only" },
              { label: "Mean reward", className: "num" },
              {
                label: "Zero variance",
                className: "num wide-only",
                title: "Share of groups whose scores are all equal, and which therefore give no learning signal.",
              },
            ]}
          >
            {rows.map((row) => (
              <Line
                key={`${row.kind} ${row.name}`}
                row={row}
                onOpen={() => void navigate({ search: (now) => ({ ...now, of: row.kind, name: row.name }) })}
              />
            ))}
          </Table>
        )}
        <ShowMore pages={list} />
      </section>
      {of && name && (
        <EnvironmentDrawer kind={of} name={name} onClose={() => void navigate({ search: ({ of: _of, name: _name, ...rest }) => rest })} />
      )}
    </>
  );
}
