import { Button } from "@mantine/core";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useMayOperate } from "@/api/session";
import { Guarded } from "@/components/Panels";
import { AttentionStrip } from "@/pages/runs/AttentionStrip";
import { Start } from "@/pages/runs/Start";
import { RunList } from "@/runs/RunList";

/** The list of runs, below what needs attention on the server. */
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
    <>
      <Guarded>
        <AttentionStrip />
      </Guarded>
      <RunList
        heading={<h1>Runs</h1>}
        look={look}
        onLook={(search, replace) => void navigate({ search, replace })}
        aside={launch}
        empty={<Start />}
      />
    </>
  );
}
