import { NativeSelect } from "@mantine/core";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import type { RunDetail } from "@/api/types";
import { TypedInput } from "@/components/TypedInput";
import { tabSearch } from "@/pages/run/trajectories/search";
import styles from "@/pages/run/trajectories/trajectories.module.css";
import { ORDERS } from "@/pages/trajectories/search";
import { TrajectoryList, useFieldProblem } from "@/pages/trajectories/TrajectoryList";

/** Links between the two views of a fleet's data. */
export function FleetViews({ run, shown }: { run: string; shown: "episodes" | "fragments" }) {
  return (
    <nav className={styles.fleetViews} aria-label="Episodes or fragments">
      {(["episodes", "fragments"] as const).map((each) => (
        <Link
          key={each}
          to="/runs/$name/trajectories"
          params={{ name: run }}
          search={each === "episodes" ? { show: "episodes", sort: "score" } : {}}
          aria-current={each === shown ? "page" : undefined}
        >
          {each === "episodes" ? "Episodes" : "Fragments"}
        </Link>
      ))}
    </nav>
  );
}

/** The training episodes of a fleet run, one per row. */
export function Episodes({ run }: { run: RunDetail }) {
  const { environment, score_min, score_max, sort } = tabSearch(useSearch({ from: "/shell/runs/$name/trajectories" }));
  const navigate = useNavigate({ from: "/runs/$name/trajectories" });
  const order = sort === "score" || sort === "-score" ? sort : undefined;
  const query = { kind: "episode" as const, run: run.name, environment, score_min, score_max, sort: order } as const;
  const problemOf = useFieldProblem(query);
  const change = (changes: Record<string, unknown>) =>
    void navigate({ search: (now) => tabSearch({ ...now, show: "episodes", ...changes }), replace: true });
  return (
    <section className={`panel ${styles.list}`} aria-label="Samples">
      <div className={styles.bar}>
        <FleetViews run={run.name} shown="episodes" />
        <TypedInput
          data-filter
          type="search"
          size="sm"
          className={styles.search}
          aria-label="Environment"
          placeholder="Environment, whole name"
          value={environment ?? ""}
          error={problemOf("environment")}
          onTyped={(text) => change({ environment: text })}
        />
        <NativeSelect
          size="sm"
          aria-label="Order"
          value={sort ?? "newest"}
          data={ORDERS.map(([value, label]) => ({ value, label }))}
          onChange={(event) => change({ sort: event.currentTarget.value })}
        />
      </div>
      <TrajectoryList query={query} onEnvironment={(name) => change({ environment: name })} />
    </section>
  );
}
