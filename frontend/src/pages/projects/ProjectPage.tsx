import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { ApiProblem } from "@/api/problems";
import { type Project, projectQuery, useChangeProject, useDeleteProject } from "@/api/projects";
import { useMayOperate } from "@/api/session";
import { rolldeckCommand } from "@/components/commandToken";
import { EmptyState } from "@/components/EmptyState";
import { ErrorState } from "@/components/ErrorState";
import { ReasonDialog } from "@/components/ReasonDialog";
import { Skeletons } from "@/components/Skeletons";
import { counted, visible } from "@/format";
import { defaultsText } from "@/forms/projectDefaults";
import { ProjectDialog } from "@/pages/projects/ProjectDialog";
import { RunList } from "@/runs/RunList";

type Opened = "edit" | "archive" | "delete" | null;

/** Archive, restore or delete a project, with a reason. */
function ConfirmDialog({ project, opened, onClose }: { project: Project; opened: "archive" | "delete"; onClose: () => void }) {
  const navigate = useNavigate();
  const change = useChangeProject(project.name);
  const remove = useDeleteProject(project.name);
  const archived = project.archived_at === null;
  const [verb, done, effect] =
    opened === "delete"
      ? ["Delete", "deleted", "Its archived runs stay, without a project."]
      : archived
        ? ["Archive", "archived", "Its runs stay in it and continue. No run can be added to it."]
        : ["Restore", "restored", "Runs can be added to it again."];
  const isFull = opened === "delete" && project.runs > 0;
  return (
    <ReasonDialog
      title={`${verb} project ${visible(project.name)}`}
      asking={opened === "delete" ? remove : change}
      refused={`Project not ${done}`}
      submit={verb as string}
      destroys={opened === "delete"}
      isReady={!isFull}
      onSubmit={(reason) =>
        opened === "delete"
          ? remove.mutate(reason, { onSuccess: () => void navigate({ to: "/projects" }) })
          : change.mutate({ archived, defaults: {}, reason }, { onSuccess: onClose })
      }
      onClose={onClose}
    >
      {isFull ? `It has ${counted(project.runs, "run")}. Move them to another project first, or archive the project.` : effect}
    </ReasonDialog>
  );
}

function Ready({ project }: { project: Project }) {
  const look = useSearch({ from: "/shell/projects/$project" });
  const navigate = useNavigate({ from: "/projects/$project" });
  const mayOperate = useMayOperate();
  const [opened, setOpened] = useState<Opened>(null);
  const { name, title, description, archived_at: archivedAt, defaults } = project;
  const close = () => setOpened(null);
  const actions: [Opened, string][] = [
    ["edit", "Edit"],
    ["archive", archivedAt ? "Restore" : "Archive"],
    ["delete", "Delete"],
  ];
  const launch = mayOperate && !archivedAt && (
    <Button renderRoot={(props) => <Link to="/runs/new" search={{ project: name }} {...props} />}>Launch in this project</Button>
  );
  return (
    <>
      <nav aria-label="Breadcrumbs" className="crumbs">
        <Link to="/projects">Projects</Link> <span aria-hidden="true">/</span> <span aria-current="page">{visible(name)}</span>
      </nav>
      <div className="page-title">
        <h1 className="anywhere">{visible(name)}</h1>
        {title && <span className="soft anywhere">{visible(title)}</span>}
        {archivedAt && <span className="tag">archived</span>}
        <span className="spacer" />
        {mayOperate &&
          actions.map(([action, label]) => (
            <Button key={label} variant="default" onClick={() => setOpened(action)}>
              {label}
            </Button>
          ))}
        {launch}
      </div>
      {description && <p className="soft anywhere">{visible(description)}</p>}
      <p className="soft small anywhere" data-defaults>
        {defaults.preset ? `New runs start from the preset ${visible(defaults.preset)}; the project ` : "For new runs, the project "}
        {visible(defaultsText(project))}.
      </p>
      <RunList
        heading={<h2>Runs</h2>}
        look={look}
        onLook={(search, replace) => void navigate({ search, replace })}
        within={`project:${name}`}
        empty={
          <EmptyState
            title="No runs in this project"
            command={rolldeckCommand(`run create --name ${name}-1 --project ${name}`)}
            needs={{ scope: "user" }}
            action={launch}
          >
            Launch a run in it, or add a run on the run's page.
          </EmptyState>
        }
      />
      {opened === "edit" && (
        <ProjectDialog
          project={project}
          onSaved={(saved) => {
            close();
            if (saved.name !== name) void navigate({ to: "/projects/$project", params: { project: saved.name }, replace: true });
          }}
          onClose={close}
        />
      )}
      {(opened === "archive" || opened === "delete") && <ConfirmDialog project={project} opened={opened} onClose={close} />}
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
