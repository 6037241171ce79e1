import { SegmentedControl, Textarea } from "@mantine/core";
import { queryOptions, useQuery, useQueryClient } from "@tanstack/react-query";
import { useRef, useState } from "react";
import { unknownPaths } from "@/forms/answers";
import { type Config, type Format, formatOf, jsonOf, readJson, savedFormat, saveFormat } from "@/pages/launch/configText";
import { kindOf } from "@/pages/launch/kinds";
import type { LaunchState } from "@/pages/launch/useLaunch";

const FORMATS: { value: Format; label: string }[] = [
  { value: "json", label: "JSON" },
  { value: "yaml", label: "YAML" },
];

const yamlQuery = queryOptions({
  queryKey: ["yaml"],
  queryFn: () => import("@/pages/launch/yamlText"),
  staleTime: Number.POSITIVE_INFINITY,
  gcTime: Number.POSITIVE_INFINITY,
  structuralSharing: false,
});

/** The resolved configuration as JSON or YAML; edits here change the form, and vice versa. */
export function ResolvedConfig({ state }: { state: LaunchState }) {
  const queries = useQueryClient();
  const [format, setFormat] = useState(savedFormat);
  // While being edited, the text may be invalid or differ from the canonical format.
  const [typed, setTyped] = useState<string | null>(null);
  const [problem, setProblem] = useState("");
  const newest = useRef("");
  const isPasted = useRef(false);
  const yaml = useQuery({ ...yamlQuery, enabled: format === "yaml" });

  const complaint = async (text: string, config: Config): Promise<string> => {
    if (kindOf(config) !== state.kind) return `This form is for ${state.kind} runs: choose another kind above.`;
    const unknown = unknownPaths(state.sections, config).filter((path) => !(path === "language" && config.language === null));
    if (unknown.length === 0) return "";
    const { placeOfField } = await queries.fetchQuery(yamlQuery);
    return `There is no such field: ${unknown.map((path) => [path, placeOfField(text, path)].filter(Boolean).join(", at ")).join("; ")}`;
  };
  const read = async (text: string, as: Format) => {
    newest.current = text;
    setTyped(text);
    const found = as === "json" ? readJson(text) : (await queries.fetchQuery(yamlQuery)).readYaml(text);
    const message = "problem" in found ? found.problem : await complaint(text, found.config);
    // The user typed on meanwhile: the newer text wins.
    if (newest.current !== text) return;
    setProblem(message);
    if (message) setTyped(text);
    else if ("config" in found) state.take(found.config);
  };
  const choose = (next: Format) => {
    setFormat(next);
    saveFormat(next);
  };
  const type = (text: string) => {
    const as = isPasted.current ? formatOf(text, format) : format;
    isPasted.current = false;
    if (as !== format) choose(as);
    void read(text, as).catch((error: Error) => setProblem(error.message));
  };
  const turn = (next: Format) => {
    choose(next);
    // Text that fails to parse in one format may be valid in the other.
    if (typed !== null && problem) void read(typed, next).catch((error: Error) => setProblem(error.message));
    else setTyped(null);
  };
  const written = format === "json" ? jsonOf(state.config) : (yaml.data?.yamlOf(state.config) ?? "");
  return (
    <>
      <SegmentedControl size="xs" mb="xs" aria-label="Format" data={FORMATS} value={format} onChange={(next) => turn(next as Format)} />
      <Textarea
        label="Resolved configuration"
        description={`All fields with their values. Edits here and in the form stay in sync. Paste JSON or YAML${format === "yaml" ? "; comments are dropped" : ""}.`}
        classNames={{ input: "mono tiny config-text" }}
        spellCheck={false}
        rows={22}
        data-format={format}
        value={typed ?? written}
        error={problem || (yaml.error && `YAML cannot be shown: ${yaml.error.message}`)}
        onPaste={() => {
          isPasted.current = true;
        }}
        onChange={(event) => type(event.currentTarget.value)}
        onBlur={() => !problem && setTyped(null)}
      />
    </>
  );
}
