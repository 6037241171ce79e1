/** State of the launch form: the YAML, the name, and the server's checks of both. */

import { useDebouncedValue, useSessionStorage } from "@mantine/hooks";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useMemo, useRef, useState } from "react";
import { ApiProblem } from "@/api/client";
import type { Project } from "@/api/projects";
import { checkQuery, useCheckRun } from "@/api/runs";
import { useMayOperate } from "@/api/session";
import { visible } from "@/format";
import type { LineError } from "@/forms/ConfigEditor";
import { changesOf, type Launch, launchIn, overlayOf, type StartPreset } from "@/forms/launch";
import { type Config, completed, edited, type JsonSchema, withOrders } from "@/forms/schema";
import { type Place, placesIn, readYaml, yamlOf } from "@/forms/yaml";

/** Wait for a pause of typing before each check. */
const PAUSE_MS = 300;

type FieldError = { field: string; message: string };
export type Start = {
  /** Key of the stored text. */
  key: string;
  schema: JsonSchema;
  config: Config;
  preset: StartPreset | undefined;
  /** The run that a clone copies. */
  parent: string | undefined;
  project: Project | undefined;
};

/** The launch request: the preset with overrides, or the full configuration if a field of the preset is removed. */
function launchOf(name: string, config: Config, base: Config, preset: StartPreset | undefined): Launch {
  const overlay = preset && overlayOf(changesOf(base, config));
  return overlay ? { name, preset: preset.name, config: overlay } : { name, preset: "", config };
}

/** Return the errors without repetitions. */
function distinct(errors: FieldError[]): FieldError[] {
  return [...new Map(errors.map((each) => [`${each.field}\n${each.message}`, each])).values()];
}

export function useLaunch({ key, schema, config: start, preset, parent, project }: Start) {
  const mayOperate = useMayOperate();
  const first = useMemo(() => yamlOf(edited(completed(start, schema), schema)), [start, schema]);
  const [text, setText, forget] = useSessionStorage({
    key: `rolldeck-launch:${key}`,
    defaultValue: first,
    getInitialValueInEffect: false,
  });
  const [typed, setTyped] = useState<string | null>(null);
  const [target, setTarget] = useState<Place | null>(null);
  const [refused, setRefused] = useState<{ of: string; errors: FieldError[] } | null>(null);
  const base = useMemo(() => withOrders(readYaml(first).config ?? {}, schema), [first, schema]);
  const read = useMemo(() => readYaml(text), [text]);
  // Inputs, changes and commands keep the last valid configuration while the text is being corrected.
  const valid = useRef(base);
  const config = useMemo(() => (read.config ? withOrders(read.config, schema) : valid.current), [read, schema]);
  valid.current = config;
  const changes = useMemo(() => changesOf(base, config), [base, config]);
  const request = (name: string) => launchIn(project, launchOf(name, config, base, preset));

  // The server suggests a free name from that of the cloned run or of the preset.
  const checked = request(typed ?? parent ?? preset?.name ?? "");
  const [paused] = useDebouncedValue(JSON.stringify(checked), PAUSE_MS);
  const quick = useQuery({ ...checkQuery(paused), enabled: mayOperate, placeholderData: keepPreviousData });
  const name = typed ?? quick.data?.suggested_name ?? "";
  const launch = request(name);
  const now = JSON.stringify(launch);
  const full = useCheckRun();
  const isOld = JSON.stringify({ ...full.variables, name: "" }) !== JSON.stringify({ ...launch, name: "" });

  const found = [
    ...(quick.isPlaceholderData || paused !== JSON.stringify(checked) ? [] : (quick.data?.findings ?? [])),
    ...(isOld ? [] : (full.data?.findings ?? [])),
  ].filter(({ level }) => level === "error");
  const errors = distinct([...found, ...(refused?.of === now ? refused.errors : [])]).map(({ field, message }) => ({
    field: field.replace(/^config(\.|$)/, ""),
    message: visible(message),
  }));
  const nameErrors = errors.filter(({ field }) => field === "name" && (typed !== null || refused?.of === now));
  const [lines, loose] = useMemo(() => {
    if (read.problem) return [[{ field: "", ...read.problem }], []];
    const placed: (LineError & { field: string })[] = [];
    const rest: FieldError[] = [];
    const placeOf = placesIn(text);
    for (const error of errors.filter(({ field }) => field !== "name")) {
      const place = placeOf(error.field);
      if (place) placed.push({ ...place, ...error });
      else rest.push(error);
    }
    return [placed.sort((one, other) => one.from - other.from), rest];
    // The errors are new objects in each render; their text decides.
  }, [read, text, JSON.stringify(errors)]);

  const go = (path: string) => {
    if (path === "name") document.querySelector<HTMLElement>("[data-field=name]")?.focus();
    else setTarget({ ...(placesIn(text)(path) ?? { from: 0, to: 0 }) });
  };
  /** Focus the first error; return whether there is none that the parser found. */
  const isReadable = () => {
    if (read.problem) setTarget({ ...read.problem });
    return !read.problem;
  };
  const refuse = (problem: Error) => {
    const fields = problem instanceof ApiProblem ? problem.fields : [];
    const field = problem instanceof ApiProblem && problem.code === "run_exists" ? "name" : "";
    const given = fields.length > 0 ? fields : [{ field, message: problem.message }];
    setRefused({ of: now, errors: given });
    const path = given[0]?.field.replace(/^config(\.|$)/, "");
    if (path) go(path);
  };
  const check = () => isReadable() && full.mutate(launch, { onError: refuse });
  return {
    text,
    setText,
    forget,
    name,
    setName: setTyped,
    config,
    base,
    changes,
    launch,
    check,
    isReadable,
    refuse,
    go,
    target,
    errors,
    nameErrors,
    lines,
    loose,
    full,
    isOld,
    unavailable: quick.error,
    isReadOnly: read.problem !== undefined,
    isTouched: text !== first,
    reset: () => setText(first),
  };
}

export type LaunchState = ReturnType<typeof useLaunch>;
