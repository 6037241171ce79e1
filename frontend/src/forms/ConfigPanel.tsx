import { Button, Menu } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { onDemand } from "@/components/onDemand";
import { Panel, Skeletons, useCopying } from "@/components/panels";
import { environmentNamesQuery } from "@/forms/api";
import { cliCommand } from "@/forms/launch";
import type { JsonSchema } from "@/forms/schema";
import type { LaunchState } from "@/forms/useLaunch";
import { lineAt } from "@/forms/yaml";
import css from "./forms.module.css";

export const ConfigEditor = onDemand(() => import("@/forms/ConfigEditor"), "ConfigEditor", <Skeletons heights={[480]} />);

/** Copy the launch as YAML or as a command. */
function CopyAs({ state }: { state: LaunchState }) {
  const { isSaid, copy } = useCopying();
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <Button size="compact-sm" variant="default">
          {isSaid ? "Copied" : "Copy as…"}
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item onClick={() => copy(state.text)}>YAML</Menu.Item>
        <Menu.Item onClick={() => copy(cliCommand(state.launch))}>rolldeck command</Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}

/** The whole configuration as YAML, with the errors of the parser and of the server at their lines. */
export function ConfigPanel({ state, schema }: { state: LaunchState; schema: JsonSchema }) {
  const steps = useQuery(environmentNamesQuery("steps"));
  return (
    <Panel
      title="Configuration"
      aside={
        <span className={css.aside}>
          {state.isTouched && (
            <Button size="compact-sm" variant="subtle" onClick={state.reset}>
              Discard changes
            </Button>
          )}
          <CopyAs state={state} />
        </span>
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
      <ul className={css.errors} aria-label="Errors" aria-live="polite">
        {state.lines.map((error) => (
          <li key={`${error.from} ${error.message}`} data-error={error.field}>
            <button type="button" className="link-button" onClick={() => state.go(error.field)}>
              Line {lineAt(state.text, error.from)}
            </button>{" "}
            {error.field && <span className="mono tiny">{error.field}</span>} {error.message}
          </li>
        ))}
        {state.loose.map(({ field, message }) => (
          <li key={field + message} data-error={field}>
            {field && <span className="mono tiny">{field}</span>} {message}
          </li>
        ))}
        {state.unavailable && <li>Fields not checked: {state.unavailable.message}</li>}
      </ul>
    </Panel>
  );
}
