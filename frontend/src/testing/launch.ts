/** The server of the launch form: the real schema and presets, which tests/api compares with the server's. */

import type { components } from "@/api/schema";
import { serverFor } from "@/testing/page";
import found from "@/testing/run-config-schema.json";
import type { AnswerTo, Server } from "@/testing/server";

type SavedPreset = components["schemas"]["SavedPresetRow"];
type Answer = AnswerTo<"GET", "/api/v1/run-config-schema">;

const { properties } = found.schema.$defs.EnvironmentConfig;
const wrappers = { ...properties.wrappers, "x-choices": ["module:gymnasium.wrappers:TimeLimit"] };
const $defs = {
  ...found.schema.$defs,
  EnvironmentConfig: { ...found.schema.$defs.EnvironmentConfig, properties: { ...properties, wrappers } },
};

/** The configurations of the built-in presets, by name. */
export const presets: Record<string, Record<string, unknown>> = Object.fromEntries(found.presets.map(({ name, config }) => [name, config]));

export function savedPreset(name: string, config: Record<string, unknown>): SavedPreset {
  const now = new Date().toISOString();
  return {
    name,
    description: "",
    access: "shared",
    config,
    kind: "fleet",
    owner: "ada",
    changed_by: "user:ada",
    changed_at: now,
    may_change: true,
    revision: 1,
    created_at: now,
  };
}

/** A server with one wrapper that runs may use. */
export function launchServer(...saved: SavedPreset[]): Server {
  return serverFor()
    .on("GET", "/api/v1/run-config-schema", { ...found, schema: { ...found.schema, $defs } } as Answer)
    .on("GET", "/api/v1/presets", { results: saved, next: null })
    .on("GET", "/api/v1/environments", { results: [], next: null } as unknown as AnswerTo<"GET", "/api/v1/environments">);
}
