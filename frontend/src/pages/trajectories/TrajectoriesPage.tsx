import { NativeSelect, SegmentedControl } from "@mantine/core";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { TypedInput } from "@/components/TypedInput";
import { boundProblem, dayProblem, ORDERS, queryOf, type TrajectorySearch, trajectorySearch } from "@/pages/trajectories/search";
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
      {(["least", "greatest"] as const).map((end) => {
        const [field, other] = end === "least" ? (["score_min", "score_max"] as const) : (["score_max", "score_min"] as const);
        return (
          <TypedInput
            key={end}
            size="xs"
            className={css.range}
            label={`${end === "least" ? "Least" : "Greatest"} ${word}`}
            inputMode="decimal"
            value={search[field]?.toString() ?? ""}
            check={(text) => boundProblem(text, end, search[other])}
            onTyped={(text) => onChange({ [field]: text })}
          />
        );
      })}
      {(["from", "to"] as const).map((end) => (
        <TypedInput
          key={end}
          size="xs"
          type="date"
          className={css.day}
          label={end === "from" ? "First day (UTC)" : "Last day (UTC)"}
          value={search[end] ?? ""}
          check={(text) => dayProblem(text, end, end === "from" ? search.to : search.from)}
          onTyped={(text) => onChange({ [end]: text })}
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
        <h1>Samples</h1>
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
