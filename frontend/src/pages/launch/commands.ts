/** Write a launch as a command for a terminal. Pure. */

export type Launch = { name: string; preset: string; config: Record<string, unknown> };

function quoted(text: string): string {
  return /^[\w.,:/-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** The client's command; `config` is laid over the preset. */
export function cliCommand({ name, preset, config }: Launch): string {
  const words = ["rolldeck launch", `--name ${quoted(name || "NAME")}`];
  if (preset) words.push(`--preset ${quoted(preset)}`);
  if (Object.keys(config).length > 0) words.push(`--config ${quoted(JSON.stringify(config))}`);
  return words.join(" ");
}

/** The same over plain HTTP. */
export function curlCommand({ name, preset, config }: Launch, origin: string): string {
  const body = { name: name || "NAME", kind: "fleet", preset, config, start: true };
  return [
    `curl -X POST ${origin}/api/runs`,
    `  -H "Authorization: Bearer $ROLLDECK_TOKEN"`,
    `  -H "Content-Type: application/json"`,
    `  --data ${quoted(JSON.stringify(body))}`,
  ].join(" \\\n");
}
