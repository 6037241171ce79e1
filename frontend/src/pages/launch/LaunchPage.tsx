import { useQuery } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { projectQuery } from "@/api/projects";
import { type RunConfigSchema, runQuery, schemaQuery } from "@/api/runs";
import { ErrorState, PageTitle, Skeletons } from "@/components/panels";
import { visible } from "@/format";
import { presetsQuery } from "@/forms/api";
import { presetsIn, startsOf } from "@/forms/launch";
import type { Config } from "@/forms/schema";
import { LaunchForm } from "@/pages/launch/LaunchForm";

/** The form for a preset, or for a clone of another run. */
function Ready({ schema, presets: builtIn }: RunConfigSchema) {
  const { from, preset: chosen, project: projectName } = useSearch({ from: "/shell/runs/new" });
  const project = useQuery({ ...projectQuery(projectName ?? ""), enabled: projectName !== undefined });
  const wanted = chosen ?? (project.data?.defaults.preset || undefined);
  const saved = useQuery(presetsQuery);
  const presets = presetsIn(project.data, startsOf(builtIn, saved.data ?? []));
  const parent = useQuery({ ...runQuery(from ?? ""), enabled: from !== undefined });
  const found = presets.find(({ name }) => name === wanted);
  const preset = from === undefined ? (found ?? presets[0]) : undefined;
  if (project.error)
    return (
      <ErrorState
        title={`No launch in project ${visible(projectName ?? "")}`}
        error={project.error}
        next={<Link to="/runs/new">Launch without a project</Link>}
      />
    );
  if (projectName !== undefined && !project.data) return <Skeletons heights={[140, 220, 320]} />;
  if (parent.error) return <ErrorState title={`${from} cannot be cloned`} error={parent.error} onRetry={() => void parent.refetch()} />;
  if (from !== undefined && !parent.data) return <Skeletons heights={[140, 220, 320]} />;
  if (parent.data?.kind === "outside") {
    return (
      <ErrorState title={`${from} cannot be cloned`} error="It is an outside run: its trainer sends the configuration when it registers." />
    );
  }
  // The name may be of a saved preset that is still loading.
  if (from === undefined && wanted !== undefined && !found && saved.isPending) return <Skeletons heights={[140, 220, 320]} />;
  const isGone = from === undefined && wanted !== undefined && !found;
  const place = project.data ? `project:${project.data.name}:` : "";
  const key = from === undefined ? `${place}preset:${preset?.name}:${preset?.saved?.revision ?? 0}` : `${place}clone:${from}`;
  const config = (parent.data?.config ?? preset?.config ?? {}) as Config;
  // A new form for each start, so that no values carry over.
  return (
    <>
      {isGone && (
        <ErrorState
          title={`No preset named ${visible(wanted)}`}
          error={saved.error ?? "It was deleted, or it is another user's private preset. The form starts from the first preset instead."}
        />
      )}
      <LaunchForm key={key} start={{ key, schema, config, preset, parent: from, project: project.data }} presets={presets} />
    </>
  );
}

export function LaunchPage() {
  const { data, error, refetch } = useQuery(schemaQuery);
  return (
    <>
      <PageTitle title="Launch a run" />

      {error && <ErrorState title="Launch form unavailable" error={error} onRetry={() => void refetch()} />}
      {!data && !error && <Skeletons heights={[140, 220, 320]} />}
      {data && <Ready {...data} />}
    </>
  );
}
