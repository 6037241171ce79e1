import { Button } from "@mantine/core";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useMayOperate } from "@/api/session";
import { EmptyState } from "@/components/EmptyState";
import { RunList } from "@/pages/runs/RunList";

export function RunsPage() {
  const look = useSearch({ from: "/shell/runs" });
  const navigate = useNavigate({ from: "/runs" });
  const mayOperate = useMayOperate();
  const launch = mayOperate && (
    <Button component={Link} to="/runs/new">
      Launch a run
    </Button>
  );
  return (
    <RunList
      heading={<h1>Runs</h1>}
      look={look}
      onLook={(search, replace) => void navigate({ search, replace })}
      aside={launch}
      empty={
        <EmptyState title="No runs yet" command="make demo" action={launch}>
          A run has a fleet or environments, a queue and a trainer. Launch one here, start the demo, or connect an Atropos environment.
        </EmptyState>
      }
    />
  );
}
