import { useInfiniteQuery } from "@tanstack/react-query";
import { ApiProblem } from "@/api/problems";
import { EmptyState } from "@/components/EmptyState";
import { ErrorState } from "@/components/ErrorState";
import { ShowMore } from "@/components/ShowMore";
import { Skeletons } from "@/components/Skeletons";
import { number } from "@/format";
import { trajectoriesQuery } from "@/pages/trajectories/api";
import type { TrajectoryQuery } from "@/pages/trajectories/search";
import { TrajectoryTable } from "@/pages/trajectories/TrajectoryTable";
import css from "@/pages/trajectories/trajectories.module.css";

/** The message about an invalid field of the last request; undefined if it is valid. */
export function useFieldProblem(query: TrajectoryQuery): (field: string) => string | undefined {
  const { error } = useInfiniteQuery({ ...trajectoriesQuery(query), enabled: false });
  const fields = error instanceof ApiProblem ? error.fields : [];
  return (field) => fields.find((each) => each.field === field)?.message;
}

type Props = { query: TrajectoryQuery; onEnvironment: (name: string) => void };

/** The found trajectories of a query, with the limits of the search. */
export function TrajectoryList({ query, onEnvironment }: Props) {
  const pages = useInfiniteQuery(trajectoriesQuery(query));
  const rows = pages.data?.pages.flatMap(({ results }) => results) ?? [];
  const last = pages.data?.pages.at(-1);
  const kind = query.kind ?? "group";
  // A change of the kind shows the rows of the other kind until the answer arrives.
  const shown = rows.filter((row) => row.kind === kind);
  const isByScore = query.sort !== undefined;
  return (
    <>
      {pages.isPending && <Skeletons heights={[320]} />}
      {pages.isError && <ErrorState title="Samples unavailable" error={pages.error} onRetry={() => void pages.refetch()} />}
      {last && last.runs_left_out > 0 && (
        <p className={css.scope} role="status">
          Searched the newest {number(last.runs)} runs; {number(last.runs_left_out)} older ones match the filter of runs too.
        </p>
      )}
      {shown.length > 0 && (
        <TrajectoryTable rows={shown} kind={kind} isOfRun={query.run !== undefined} sort={query.sort} onEnvironment={onEnvironment} />
      )}
      {last?.is_partial && (
        <p className={css.scope}>
          {kind === "episode" && isByScore
            ? "Searched the newest 20,000 reports of episodes; older ones are not sorted in."
            : "Searched a part of the trajectories; older ones may match too."}
        </p>
      )}
      <ShowMore pages={pages} words={last?.is_partial ? "Search older" : undefined} />
      {pages.isSuccess && shown.length === 0 && !pages.hasNextPage && !pages.isPlaceholderData && (
        <EmptyState title={kind === "episode" ? "No matching episodes" : "No matching groups"}>
          {kind === "episode"
            ? "Fleets report their training episodes as they end. Remove a filter, or search groups."
            : "Words are found a few seconds after a group is received. Remove a filter, or search episodes."}
        </EmptyState>
      )}
    </>
  );
}
