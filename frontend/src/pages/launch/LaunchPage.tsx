import "@/pages/launch/launch.css";
import { useQuery } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";
import { type RunConfigSchema, runQuery, schemaQuery } from "@/api/runs";
import { ErrorState } from "@/components/ErrorState";
import { Skeletons } from "@/components/Skeletons";
import { LaunchForm } from "@/pages/launch/LaunchForm";
import type { Config } from "@/pages/launch/useLaunch";

/** The form for a preset, or for what another run is configured as. */
function Ready({ schema, presets }: RunConfigSchema) {
  const { from, preset: wanted } = useSearch({ from: "/shell/runs/new" });
  const parent = useQuery({ ...runQuery(from ?? ""), enabled: from !== undefined });
  const preset = from === undefined ? (presets.find(({ name }) => name === wanted) ?? presets[0]) : undefined;
  if (parent.error) return <ErrorState title={`${from} cannot be cloned`} error={parent.error} onRetry={() => void parent.refetch()} />;
  if (from !== undefined && !parent.data) return <Skeletons heights={[140, 220, 320]} />;
  if (parent.data?.kind === "outside") {
    return <ErrorState title={`${from} cannot be cloned`} error="It is an outside run: its trainer brings its configuration when it registers." />;
  }
  const key = from === undefined ? `preset:${preset?.name}` : `clone:${from}`;
  const config = (parent.data?.config ?? preset?.config ?? {}) as Config;
  // A form for each start, so that nothing of one is sent under the name of another.
  return <LaunchForm key={key} schema={schema} presets={presets} start={{ key, config }} preset={preset} parent={from} />;
}

export function LaunchPage() {
  const { data, error, refetch } = useQuery(schemaQuery);
  return (
    <>
      <div className="page-title">
        <h1>Launch a run</h1>
      </div>
      {error && <ErrorState title="The form cannot be shown" error={error} onRetry={() => void refetch()} />}
      {!data && !error && <Skeletons heights={[140, 220, 320]} />}
      {data && <Ready {...data} />}
    </>
  );
}
