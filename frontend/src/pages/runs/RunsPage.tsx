import { Button } from "@mantine/core";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { useMayOperate } from "@/api/session";
import { onDemand } from "@/components/onDemand";
import { Guarded } from "@/components/panels";
import { AttentionStrip } from "@/pages/runs/AttentionStrip";
import { Start } from "@/pages/runs/Start";
import { RunList } from "@/runs/RunList";

const Projects = onDemand(() => import("@/pages/runs/Projects"), "Projects");

/** The list of runs, below what needs attention on the server. */
export function RunsPage() {
  const look = useSearch({ from: "/shell/runs" });
  const navigate = useNavigate({ from: "/runs" });
  const mayOperate = useMayOperate();
  const [hasProjects, setProjects] = useState(false);
  return (
    <>
      <Guarded>
        <AttentionStrip />
      </Guarded>
      <RunList
        heading={<h1>Runs</h1>}
        look={look}
        onLook={(search, replace) => void navigate({ search, replace })}
        aside={
          <>
            <Button variant="default" onPointerEnter={Projects.preload} onClick={() => setProjects(true)}>
              Projects
            </Button>
            {mayOperate && (
              <Button component={Link} to="/runs/new">
                Launch a run
              </Button>
            )}
          </>
        }
        empty={<Start />}
      />
      {hasProjects && <Projects onClose={() => setProjects(false)} />}
    </>
  );
}
