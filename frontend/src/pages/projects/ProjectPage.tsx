import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { ApiProblem } from "@/api/problems";
import { type Project, projectActivityQuery, projectQuery, useChangeProject, useDeleteProject } from "@/api/projects";
import { useMayOperate } from "@/api/session";
import { EmptyState } from "@/components/EmptyState";
import { ErrorState } from "@/components/ErrorState";
import { Panel } from "@/components/Panel";
import { ReasonDialog } from "@/components/ReasonDialog";
import { Skeletons } from "@/components/Skeletons";
import { Table } from "@/components/Table";
import { counted, number, visible } from "@/format";
import { useLiveRuns } from "@/live/deployment";
import { leavesOf, valueText } from "@/pages/launch/changes";
import { bestRuns } from "@/pages/projects/bestRuns";
import { ProjectDialog } from "@/pages/projects/ProjectDialog";
import { RunList } from "@/pages/runs/RunList";
import css from "./projects.module.css";

/** The defaults of new runs. */
function Defaults({ project }: { project: Project }) {
  const { preset, tags, config } = project.defaults;
  const leaves = leavesOf(config) ?? [];
  return (
    <Panel title="Defaults" note="of runs launched in this project">
      <dl className={css.facts}>
        <dt>Preset</dt>
        <dd>{preset ? visible(preset) : <span className="soft">none</span>}</dd>
        <dt>Tags</dt>
        <dd>
          {tags.length === 0 && <span className="soft">none</span>}
          {tags.map((tag) => (
            <span key={tag} className="tag">
              {visible(tag)}
            </span>
          ))}
        </dd>
        <dt>Configuration</dt>
        <dd>
          {leaves.length === 0 && <span className="soft">as in the preset</span>}
          {leaves.map(([path, value]) => (
            <div key={path} className="mono small anywhere" data-default={path}>
              {visible(`${path} = ${valueText(value)}`)}
            </div>
          ))}
        </dd>
      </dl>
    </Panel>
  );
}

/** The runs with the highest returns. */
function BestRuns({ name }: { name: string }) {
  const { data, isPending } = useQuery(projectActivityQuery([name]));
  const best = bestRuns(data?.[name]?.best_runs ?? [], useLiveRuns());
  return (
    <Panel title="Best runs" note="highest mean return, of the newest 50 runs">
      {isPending && <Skeletons heights={[120]} />}
      {!isPending && best.length === 0 && <p className="soft small">No run has a return yet.</p>}
      {best.length > 0 && (
        <Table label="Best runs" columns={["Run", "State", { label: "Return", className: "num" }]}>
          {best.map((run) => (
            <tr key={run.name} className="opens">
              <td className="anywhere">
                <Link to="/runs/$name" params={{ name: run.name }} className="strong">
                  {visible(run.name)}
                </Link>
              </td>
              <td>{run.status}</td>
              <td className="num">{number(run.return_mean)}</td>
            </tr>
          ))}
        </Table>
      )}
    </Panel>
  );
}

type Opened = "edit" | "archive" | "delete" | null;

/** Archive, restore or delete a project, with a reason. */
function ConfirmDialog({ project, opened, onClose }: { project: Project; opened: "archive" | "delete"; onClose: () => void }) {
  const navigate = useNavigate();
  const change = useChangeProject(project.name);
  const remove = useDeleteProject(project.name);
  const name = visible(project.name);
  if (opened === "delete") {
    return (
      <ReasonDialog
        title={`Delete project ${name}`}
        asking={remove}
        refused="Project not deleted"
        submit="Delete"
        destroys
        isReady={project.runs === 0}
        onSubmit={(reason) => remove.mutate(reason, { onSuccess: () => void navigate({ to: "/projects" }) })}
        onClose={onClose}
      >
        {project.runs === 0
          ? "Its archived runs stay, without a project."
          : `It has ${counted(project.runs, "run")}. Move them to another project first, or archive the project.`}
      </ReasonDialog>
    );
  }
  const archived = project.archived_at === null;
  return (
    <ReasonDialog
      title={`${archived ? "Archive" : "Restore"} project ${name}`}
      asking={change}
      refused="Project not changed"
      submit={archived ? "Archive" : "Restore"}
      onSubmit={(reason) => change.mutate({ archived, defaults: {}, reason }, { onSuccess: onClose })}
      onClose={onClose}
    >
      {archived ? "Its runs stay in it and continue. No run can be added to it." : "Runs can be added to it again."}
    </ReasonDialog>
  );
}

function Ready({ project }: { project: Project }) {
  const look = useSearch({ from: "/shell/projects/$project" });
  const navigate = useNavigate({ from: "/projects/$project" });
  const mayOperate = useMayOperate();
  const [opened, setOpened] = useState<Opened>(null);
  const { name } = project;
  const launch = mayOperate && !project.archived_at && (
    <Button renderRoot={(props) => <Link to="/runs/new" search={{ project: name }} {...props} />}>Launch in this project</Button>
  );
  return (
    <>
      <nav aria-label="Breadcrumbs" className="crumbs">
        <Link to="/projects">Projects</Link> <span aria-hidden="true">/</span> <span aria-current="page">{visible(name)}</span>
      </nav>
      <div className="page-title">
        <h1 className="anywhere">{visible(name)}</h1>
        {project.title && <span className="soft anywhere">{visible(project.title)}</span>}
        {project.archived_at && <span className="tag">archived</span>}
        <span className="spacer" />
        {mayOperate && (
          <>
            <Button variant="default" onClick={() => setOpened("edit")}>
              Edit
            </Button>
            <Button variant="default" onClick={() => setOpened("archive")}>
              {project.archived_at ? "Restore" : "Archive"}
            </Button>
            <Button variant="default" onClick={() => setOpened("delete")}>
              Delete
            </Button>
          </>
        )}
        {launch}
      </div>
      {project.description && <p className={`soft anywhere ${css.description}`}>{visible(project.description)}</p>}
      <div className={css.panels}>
        <Defaults project={project} />
        <BestRuns name={name} />
      </div>
      <RunList
        heading={<h2>Runs</h2>}
        look={look}
        onLook={(search, replace) => void navigate({ search, replace })}
        within={`project:${name}`}
        empty={
          <EmptyState title="No runs in this project" action={launch}>
            Launch a run in it, or add a run on the run's page.
          </EmptyState>
        }
      />
      {opened === "edit" && (
        <ProjectDialog
          project={project}
          onSaved={(saved) => {
            setOpened(null);
            if (saved.name !== name) void navigate({ to: "/projects/$project", params: { project: saved.name }, replace: true });
          }}
          onClose={() => setOpened(null)}
        />
      )}
      {(opened === "archive" || opened === "delete") && <ConfirmDialog project={project} opened={opened} onClose={() => setOpened(null)} />}
    </>
  );
}

export function ProjectPage() {
  const { project: name } = useParams({ from: "/shell/projects/$project" });
  const { data, error, refetch } = useQuery(projectQuery(name));
  if (data) return <Ready key={name} project={data} />;
  if (!error) return <Skeletons heights={[64, 180, 320]} />;
  if (!(error instanceof ApiProblem && error.status === 404)) {
    return <ErrorState title="Project unavailable" error={error} onRetry={() => void refetch()} />;
  }
  return (
    <div className="panel">
      <h1 className="unseen">{visible(name)}</h1>
      <EmptyState title={`No project named ${visible(name)}`} action={<Link to="/projects">All projects</Link>}>
        Check the name: the project may have been renamed or deleted.
      </EmptyState>
    </div>
  );
}
