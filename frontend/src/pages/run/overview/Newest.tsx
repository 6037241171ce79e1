import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { fragmentsQuery } from "@/api/fragments";
import { groupsQuery } from "@/api/groups";
import type { RunDetail } from "@/api/types";
import { ErrorState } from "@/components/ErrorState";
import { Panel } from "@/components/Panel";
import { FragmentTable } from "@/pages/run/trajectories/FragmentTable";
import { GroupTable } from "@/pages/run/trajectories/GroupTable";

const SHOWN = 5;
const EVERY_MS = 10_000;

/** Why there are no rows: nothing came in, it is not known yet, or it cannot be known. */
function NoRows({ isKnown, error }: { isKnown: boolean; error: unknown }) {
  if (error) return <ErrorState title="The newest cannot be shown" error={error} />;
  return <p className="faint small">{isKnown ? "Nothing came in yet." : "Asking for the newest…"}</p>;
}

function NewestGroups({ run }: { run: string }) {
  const { data, error } = useQuery({ ...groupsQuery(run, {}, undefined, SHOWN), refetchInterval: EVERY_MS });
  if (!data || data.results.length === 0) return <NoRows isKnown={data !== undefined} error={error} />;
  return <GroupTable run={run} groups={data.results} query={{}} />;
}

function NewestFragments({ run }: { run: string }) {
  const { data, error } = useInfiniteQuery({ ...fragmentsQuery(run, {}, SHOWN), refetchInterval: EVERY_MS });
  const rows = data?.pages[0]?.results ?? [];
  if (rows.length === 0) return <NoRows isKnown={data !== undefined} error={error} />;
  return <FragmentTable run={run} rows={rows} query={{}} />;
}

/** The last few things that came in, to see at a glance what is trained on. */
export default function Newest({ run }: { run: RunDetail }) {
  return (
    <Panel
      title="Newest trajectories"
      note={run.kind === "fleet" ? "fragments" : "groups"}
      aside={<Link to="/runs/$name/trajectories" params={{ name: run.name }} className="small">All of them</Link>}
      className="span-12"
    >
      {run.kind === "fleet" ? <NewestFragments run={run.name} /> : <NewestGroups run={run.name} />}
    </Panel>
  );
}
