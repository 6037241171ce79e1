import { Button, Group, List } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { onDemand } from "@/components/onDemand";
import { Copy, Panel, Skeletons, TextButton } from "@/components/panels";
import { environmentNamesQuery } from "@/forms/api";
import { cliCommand } from "@/forms/launch";
import type { JsonSchema } from "@/forms/schema";
import type { LaunchState } from "@/forms/useLaunch";
import { lineAt } from "@/forms/yaml";
import css from "./forms.module.css";

export const ConfigEditor = onDemand(() => import("@/forms/ConfigEditor"), "ConfigEditor", <Skeletons heights={[480]} />);

/** The whole configuration as YAML, with the errors of the parser and of the server at their lines. */
export function ConfigPanel({ state, schema }: { state: LaunchState; schema: JsonSchema }) {
  const steps = useQuery(environmentNamesQuery("steps"));
  return (
    <Panel
      title="Configuration"
      aside={
        <Group gap="xs">
          {state.isTouched && (
            <Button size="compact-sm" variant="subtle" onClick={state.reset}>
              Discard changes
            </Button>
          )}
          <Copy text={cliCommand(state.launch)} words="Copy as command" size="compact-sm" />
        </Group>
      }
    >
      <div className={css.editor}>
        <ConfigEditor
          text={state.text}
          label="Configuration as YAML"
          schema={schema}
          names={{ "environment.spec": steps.data ?? [] }}
          errors={state.lines}
          target={state.target}
          onChange={state.setText}
        />
      </div>
      <List listStyleType="none" size="sm" c="bad" mt="xs" className="anywhere" aria-label="Errors" aria-live="polite">
        {state.lines.map((error) => (
          <li key={`${error.from} ${error.message}`} data-error={error.field}>
            <TextButton onClick={() => state.go(error.field)}>Line {lineAt(state.text, error.from)}</TextButton>{" "}
            {error.field && <span className="mono tiny">{error.field}</span>} {error.message}
          </li>
        ))}
        {state.loose.map(({ field, message }) => (
          <li key={field + message} data-error={field}>
            {field && <span className="mono tiny">{field}</span>} {message}
          </li>
        ))}
        {state.unavailable && <li>Fields not checked: {state.unavailable.message}</li>}
      </List>
    </Panel>
  );
}
