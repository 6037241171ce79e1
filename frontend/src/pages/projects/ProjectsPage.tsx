import { Button, SegmentedControl } from "@mantine/core";
import { useInfiniteQuery, useQueries } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { type Project, type ProjectActivity, projectActivityQuery, projectsQuery } from "@/api/projects";
import { useMayOperate } from "@/api/session";
import { Age } from "@/components/Age";
import { EmptyState } from "@/components/EmptyState";
import { ErrorState } from "@/components/ErrorState";
import { ShowMore } from "@/components/ShowMore";
import { Skeletons } from "@/components/Skeletons";
import { Table } from "@/components/Table";
import { number, visible } from "@/format";
import { ProjectDialog } from "@/pages/projects/ProjectDialog";
import css from "./projects.module.css";

const COLUMNS = [
  "Project",
  { label: "Active runs", className: "num" },
  { label: "Runs", className: "num wide-only" },
  { label: "Newest return", className: "num", title: "Mean return of the last 20 training episodes of the newest run that has one" },
  { label: "Last activity", className: "wide-only", title: "Last status change, heartbeat or measurement of a run" },
];

function Line({ project, activity }: { project: Project; activity: ProjectActivity | undefined }) {
  const newest = activity?.newest_return;
  return (
    <tr className="opens" data-row data-project={project.name}>
      <td className={css.name}>
        <Link to="/projects/$project" params={{ project: project.name }} className="strong" data-open>
          {visible(project.name)}
        </Link>
        {project.title && <div className="soft small anywhere">{visible(project.title)}</div>}
      </td>
      <td className="num">{number(activity?.active_runs ?? 0)}</td>
      <td className="num wide-only">{number(project.runs)}</td>
      <td className="num">
        {newest ? (
          <>
            {number(newest.return_mean)}
            <div className="faint small anywhere">{visible(newest.name)}</div>
          </>
        ) : (
          "–"
        )}
      </td>
      <td className="nowrap soft wide-only">{activity ? <Age at={activity.last_activity_at} suffix=" ago" /> : "–"}</td>
    </tr>
  );
}

export function ProjectsPage() {
  const { archived = false } = useSearch({ from: "/shell/projects" });
  const navigate = useNavigate({ from: "/projects" });
  const mayOperate = useMayOperate();
  const [isCreating, setCreating] = useState(false);
  const list = useInfiniteQuery(projectsQuery(archived));
  const pages = list.data?.pages ?? [];
  const activities = useQueries({ queries: pages.map(({ results }) => projectActivityQuery(results.map(({ name }) => name))) });
  const rows = pages.flatMap(({ results }) => results);
  const activity: Record<string, ProjectActivity> = Object.assign({}, ...activities.map(({ data }) => data));
  const create = mayOperate && <Button onClick={() => setCreating(true)}>New project</Button>;
  return (
    <>
      <div className="page-title">
        <h1>Projects</h1>
        <span className="soft small">Runs that belong together, with defaults for new ones.</span>
        <span className="spacer" />
        {create}
      </div>
      <section className="panel" aria-label="Projects by name">
        <div className={css.bar}>
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
        </div>
        {list.isPending && <Skeletons heights={[320]} />}
        {list.isError && <ErrorState title="Projects unavailable" error={list.error} onRetry={() => void list.refetch()} />}
        {list.isSuccess && rows.length === 0 && (
          <EmptyState title={archived ? "No archived projects" : "No projects yet"} action={archived ? undefined : create}>
            {archived
              ? "An archived project keeps its runs, and no run can be added to it."
              : "A project groups runs and gives new ones a preset, a configuration and tags. Runs can also be moved into it later."}
          </EmptyState>
        )}
        {rows.length > 0 && (
          <Table columns={COLUMNS}>
            {rows.map((project) => (
              <Line key={project.name} project={project} activity={activity[project.name]} />
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
