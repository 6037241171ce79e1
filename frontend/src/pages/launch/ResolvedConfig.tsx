import { Textarea } from "@mantine/core";
import { useState } from "react";
import { unknownPaths } from "@/forms/fields";
import { type Config, kindOf, type LaunchState } from "@/pages/launch/useLaunch";

function parsed(text: string): Config | string {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Config) : "A JSON object is needed.";
  } catch (error) {
    return `This is not JSON: ${error instanceof Error ? error.message : "?"}`;
  }
}

/** Everything that the run would be told, as JSON; what is typed here changes the form, and back. */
export function ResolvedConfig({ state }: { state: LaunchState }) {
  // While it is being typed it may be no JSON, or written otherwise than the page would.
  const [typed, setTyped] = useState<string | null>(null);
  const [problem, setProblem] = useState("");
  const type = (text: string) => {
    setTyped(text);
    const config = parsed(text);
    if (typeof config === "string") return setProblem(config);
    if (kindOf(config) !== state.kind) return setProblem(`This form is for a ${state.kind} run: choose another kind above.`);
    const unknown = unknownPaths(state.sections, config).filter((path) => !(path === "language" && config.language === null));
    setProblem(unknown.length > 0 ? `There is no such field: ${unknown.join(", ")}` : "");
    if (unknown.length === 0) state.take(config);
  };
  return (
    <Textarea
      label="Resolved configuration"
      description="Every field with its value. Edit here or in the form; one follows the other."
      classNames={{ input: "mono tiny config-text" }}
      spellCheck={false}
      rows={22}
      value={typed ?? JSON.stringify(state.config, null, 2)}
      error={problem}
      onChange={(event) => type(event.currentTarget.value)}
      onBlur={() => !problem && setTyped(null)}
    />
  );
}
