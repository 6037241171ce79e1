/** Format a launch as a shell command. Pure. */

export type Launch = {
  name: string;
  /** With `uses_project_defaults`, which defaults to true. */
  project?: string;
  uses_project_defaults?: boolean;
  preset: string;
  config: Record<string, unknown>;
};

function quoted(text: string): string {
  return /^[\w.,:/-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** The `rolldeck launch` command; `config` is merged into the preset. */
export function cliCommand({ name, project, uses_project_defaults: usesDefaults, preset, config }: Launch): string {
  const words = ["rolldeck launch", `--name ${quoted(name || "NAME")}`];
  if (project) words.push(`--project ${quoted(project)}`);
  if (usesDefaults === false) words.push("--no-project-defaults");
  if (preset) words.push(`--preset ${quoted(preset)}`);
  if (Object.keys(config).length > 0) words.push(`--config ${quoted(JSON.stringify(config))}`);
  return words.join(" ");
}

/** The same request with curl. */
export function curlCommand({ name, ...launch }: Launch, origin: string): string {
  const body = { name: name || "NAME", kind: "fleet", ...launch, start: true };
  return [
    `curl -X POST ${origin}/api/v1/runs`,
    `  -H "Authorization: Bearer $ROLLDECK_TOKEN"`,
    `  -H "Content-Type: application/json"`,
    `  --data ${quoted(JSON.stringify(body))}`,
  ].join(" \\\n");
}
