import { Button, SegmentedControl } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useState } from "react";
import { type Project, projectsQuery } from "@/api/projects";
import { useMayOperate } from "@/api/session";
import { Age } from "@/components/Age";
import { rolldeckCommand } from "@/components/commandToken";
import { EmptyState } from "@/components/EmptyState";
import { ErrorState } from "@/components/ErrorState";
import { ShowMore } from "@/components/ShowMore";
import { Skeletons } from "@/components/Skeletons";
import { Table } from "@/components/Table";
import { number, visible } from "@/format";
import { ProjectDialog } from "@/pages/projects/ProjectDialog";

const COLUMNS = ["Project", { label: "Runs", className: "num" }, { label: "Changed", className: "wide-only" }];

function Line({ project }: { project: Project }) {
  return (
    <tr className="opens" data-row data-project={project.name}>
      <td className="anywhere">
        <Link to="/projects/$project" params={{ project: project.name }} className="strong" data-open>
          {visible(project.name)}
        </Link>
        {project.title && <div className="soft small">{visible(project.title)}</div>}
      </td>
      <td className="num">{number(project.runs)}</td>
      <td className="nowrap soft wide-only">
        <Age at={project.changed_at} suffix=" ago" />
      </td>
    </tr>
  );
}

function Nothing({ isArchived, create }: { isArchived: boolean; create: ReactNode }) {
  if (isArchived) {
    return (
      <EmptyState title="No archived projects" action={<Link to="/projects">Current projects</Link>}>
        An archived project keeps its runs, and no run can be added to it.
      </EmptyState>
    );
  }
  return (
    <EmptyState title="No projects yet" command={rolldeckCommand("api POST projects name=mazes")} needs={{ scope: "user" }} action={create}>
      A project groups runs and gives new ones a preset, a configuration and tags. Runs can also be moved into it later.
    </EmptyState>
  );
}

export function ProjectsPage() {
  const { archived = false } = useSearch({ from: "/shell/projects" });
  const navigate = useNavigate({ from: "/projects" });
  const mayOperate = useMayOperate();
  const [isCreating, setCreating] = useState(false);
  const list = useInfiniteQuery(projectsQuery(archived));
  const rows = (list.data?.pages ?? []).flatMap(({ results }) => results);
  const create = mayOperate && <Button onClick={() => setCreating(true)}>New project</Button>;
  return (
    <>
      <div className="page-title">
        <h1>Projects</h1>
        <span className="soft small">Runs that belong together, with defaults for new ones.</span>
        <span className="spacer" />
        <SegmentedControl
          size="xs"
          aria-label="Shown projects"
          value={archived ? "archived" : "current"}
          data={[
            { value: "current", label: "Current" },
            { value: "archived", label: "Archived" },
          ]}
          onChange={(value) => void navigate({ search: { archived: value === "archived" || undefined }, replace: true })}
        />
        {create}
      </div>
      <section className="panel" aria-label="Projects by name">
        {list.isPending && <Skeletons heights={[320]} />}
        {list.isError && <ErrorState title="Projects unavailable" error={list.error} onRetry={() => void list.refetch()} />}
        {list.isSuccess && rows.length === 0 && <Nothing isArchived={archived} create={create} />}
        {rows.length > 0 && (
          <Table columns={COLUMNS}>
            {rows.map((project) => (
              <Line key={project.name} project={project} />
            ))}
          </Table>
        )}
        <ShowMore pages={list} />
      </section>
      {isCreating && (
        <ProjectDialog
          onSaved={({ name }) => void navigate({ to: "/projects/$project", params: { project: name } })}
          onClose={() => setCreating(false)}
        />
      )}
    </>
  );
}
