import { useNavigate, useSearch } from "@tanstack/react-router";
import { LossOfRuns } from "@/components/DataLoss";
import { EmptyState } from "@/components/panels";
import { SampleList } from "@/samples/SampleList";
import { KINDS } from "@/samples/search";

/** The samples of all runs. */
export function TrajectoriesPage() {
  const search = useSearch({ from: "/shell/trajectories" });
  const navigate = useNavigate({ from: "/trajectories" });
  return (
    <>
      <div className="page-title">
        <h1>Samples</h1>
      </div>
      <LossOfRuns />
      <section className="panel" aria-label="Found samples">
        <SampleList
          search={search}
          onSearch={(next, replace) => void navigate({ search: next, replace })}
          kinds={KINDS}
          empty={
            <EmptyState title="No samples yet" command="make demo">
              Shows the groups, episodes and fragments of all runs.
            </EmptyState>
          }
        />
      </section>
    </>
  );
}
