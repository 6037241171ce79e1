/** The server of the launch form: the real schema and presets, which tests/api compares with the server's. */

import type { components } from "@/api/schema";
import { serverFor } from "@/testing/page";
import found from "@/testing/run-config-schema.json";
import type { AnswerTo, Server } from "@/testing/server";

type RunCheck = components["schemas"]["RunCheck"];

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
    uid: "preset_000000000000000000000000",
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

/** The answer to a check, with an error for each message by field. */
export function checkOf(errors: Record<string, string> = {}, suggested_name = "cartpole-1"): RunCheck {
  const findings = Object.entries(errors).map(([field, message]) => {
    return { level: "error" as const, subject: "Configuration", field, message, remedy: "Change the field." };
  });
  return { result: findings.length > 0 ? "refused" : "ready", config: null, suggested_name, findings, seconds: 0.1 };
}

/** A server with one wrapper that runs may use. */
export function launchServer(...saved: SavedPreset[]): Server {
  return serverFor()
    .on("GET", "/api/v1/run-config-schema", { ...found, schema: { ...found.schema, $defs } } as Answer)
    .on("POST", "/api/v1/run-checks", checkOf())
    .on("GET", "/api/v1/presets", { results: saved, next: null })
    .on("GET", "/api/v1/environments", { results: [], next: null } as unknown as AnswerTo<"GET", "/api/v1/environments">);
}
