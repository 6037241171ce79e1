import { NativeSelect, SegmentedControl, TextInput } from "@mantine/core";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { TypedInput } from "@/components/TypedInput";
import { ORDERS, queryOf, type TrajectorySearch, trajectorySearch } from "@/pages/trajectories/search";
import { TrajectoryList, useFieldProblem } from "@/pages/trajectories/TrajectoryList";
import css from "@/pages/trajectories/trajectories.module.css";

const TYPED: { name: "runs" | "environment"; label: string; hint: string }[] = [
  { name: "environment", label: "Environment or lesson", hint: "whole name" },
  { name: "runs", label: "Runs", hint: "project:maze tag:baseline" },
];

type Change = (changes: Record<string, unknown>) => void;

function Ranges({ search, onChange }: { search: TrajectorySearch; onChange: Change }) {
  const word = search.kind === "episode" ? "return" : "score";
  return (
    <>
      <TypedInput
        size="xs"
        className={css.range}
        label={`Least ${word}`}
        inputMode="decimal"
        value={search.score_min?.toString() ?? ""}
        onTyped={(text: string) => onChange({ score_min: text })}
      />
      <TypedInput
        size="xs"
        className={css.range}
        label={`Greatest ${word}`}
        inputMode="decimal"
        value={search.score_max?.toString() ?? ""}
        onTyped={(text: string) => onChange({ score_max: text })}
      />
      {(["from", "to"] as const).map((end) => (
        <TextInput
          key={end}
          size="xs"
          type="date"
          className={css.day}
          label={end === "from" ? "First day (UTC)" : "Last day (UTC)"}
          value={search[end] ?? ""}
          onChange={(event) => onChange({ [end]: event.currentTarget.value })}
        />
      ))}
    </>
  );
}

function Filters({ search, onChange }: { search: TrajectorySearch; onChange: Change }) {
  const problemOf = useFieldProblem(queryOf(search));
  return (
    <div className={css.boxes}>
      <SegmentedControl
        size="xs"
        aria-label="Kind"
        value={search.kind ?? "group"}
        data={[
          { value: "group", label: "Groups" },
          { value: "episode", label: "Episodes" },
        ]}
        onChange={(kind) => onChange({ kind, score_min: undefined, score_max: undefined })}
      />
      {search.kind !== "episode" && (
        <TypedInput
          data-filter
          type="search"
          size="xs"
          className={css.text}
          label="Messages"
          placeholder={'word "exact phrase" -without'}
          value={search.q ?? ""}
          error={problemOf("q")}
          onTyped={(q: string) => onChange({ q })}
        />
      )}
      {TYPED.map(({ name, label, hint }) => (
        <TypedInput
          key={name}
          size="xs"
          className={css.text}
          label={label}
          placeholder={hint}
          value={search[name] ?? ""}
          error={problemOf(name)}
          onTyped={(text) => onChange({ [name]: text })}
        />
      ))}
      <Ranges search={search} onChange={onChange} />
      <NativeSelect
        size="xs"
        label="Order"
        value={search.sort ?? "newest"}
        data={ORDERS.map(([value, label]) => ({ value, label }))}
        onChange={(event) => onChange({ sort: event.currentTarget.value })}
      />
    </div>
  );
}

/** Search for trajectory groups and episodes in all runs. */
export function TrajectoriesPage() {
  const search = useSearch({ from: "/shell/trajectories" });
  const navigate = useNavigate({ from: "/trajectories" });
  const change: Change = (changes) => void navigate({ search: (now) => trajectorySearch({ ...now, ...changes }), replace: true });
  return (
    <>
      <div className="page-title">
        <h1>Trajectories</h1>
        <span className="soft small">
          {search.kind === "episode"
            ? "Training episodes of all fleets, from their reports: return, length and environment. Observations are not searched."
            : "Groups of all runs, by metadata and the first 6,000 characters of their messages. Tokens without text are not searched."}
        </span>
      </div>
      <section className="panel" aria-label="Found trajectories">
        <Filters search={search} onChange={change} />
        <TrajectoryList query={queryOf(search)} onEnvironment={(environment) => change({ environment })} />
      </section>
    </>
  );
}
