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
  return /^[\w.,:/=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** A value of `--set`: text, or JSON where text would be read as JSON. */
function valueText(value: unknown): string {
  if (typeof value !== "string") return JSON.stringify(value);
  try {
    JSON.parse(value);
    return JSON.stringify(value);
  } catch {
    return value;
  }
}

/** The fields of a configuration as `section.field=value`, or `field=value` outside of sections. */
function assignments(config: Record<string, unknown>): string[] {
  return Object.entries(config).flatMap(([section, value]) => {
    const fields = value !== null && typeof value === "object" && !Array.isArray(value) ? Object.entries(value) : [];
    if (fields.length === 0) return [`${section}=${valueText(value)}`];
    return fields.map(([field, inner]) => `${section}.${field}=${valueText(inner)}`);
  });
}

/** The `rolldeck run create` command; `config` is merged into the preset. */
export function cliCommand({ name, project, uses_project_defaults: usesDefaults, preset, config }: Launch): string {
  const words = ["rolldeck run create", `--name ${quoted(name || "NAME")}`];
  if (project) words.push(`--project ${quoted(project)}`);
  if (usesDefaults === false) words.push("--no-project-defaults");
  if (preset) words.push(`--preset ${quoted(preset)}`);
  for (const assignment of assignments(config)) words.push(`--set ${quoted(assignment)}`);
  return words.join(" ");
}
