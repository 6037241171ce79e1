import { Code } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { schemaQuery } from "@/api/runs";
import type { RunDetail } from "@/api/types";
import { Copy, EmptyState, Panel, Panels } from "@/components/panels";
import { visible } from "@/format";
import { presetsQuery } from "@/forms/api";
import { ChangeList } from "@/forms/ChangeList";
import { baseOf, changesOf, startsOf } from "@/forms/launch";
import { type Config, completed, edited } from "@/forms/schema";
import { ChangeHistory } from "@/pages/run/config/ChangeHistory";
import { useRun } from "@/pages/run/RunContext";
import { trainerCommand } from "@/runs/words";

/** The configuration's differences from the preset of the launch, or from the defaults. */
function Differing({ run }: { run: RunDetail }) {
  const { data } = useQuery(schemaQuery);
  const isBuiltIn = data?.presets.some(({ name }) => name === run.preset) ?? true;
  const saved = useQuery({ ...presetsQuery, enabled: run.preset !== "" && !isBuiltIn });
  if (!data || saved.isLoading) return null;
  const { config, from } = baseOf(run, startsOf(data.presets, saved.data ?? []));
  const known = (each: Config) => edited(completed(each, data.schema), data.schema);
  return <ChangeList changes={changesOf(known(config), known(run.config as Config))} from={visible(from)} />;
}

function Configuration({ run }: { run: RunDetail }) {
  const text = JSON.stringify(run.config, null, 2);
  return (
    <Panel
      title="Configuration"
      note={run.preset ? `as launched from preset ${run.preset}` : "as launched"}
      columns={6}
      aside={<Copy text={text} words="Copy as JSON" size="compact-sm" />}
    >
      <Differing run={run} />
      <details>
        <summary>All values</summary>
        <Code block tabIndex={0} role="group" aria-label="Configuration">
          {visible(text)}
        </Code>
      </details>
    </Panel>
  );
}

/** The run's configuration as launched, and all later changes with author, time and reason. */
export function ConfigTab() {
  const { run } = useRun();
  return (
    <Panels>
      {run.kind === "outside" ? (
        <Panel title="Configuration" columns={6}>
          <EmptyState
            title="This run has no stored configuration"
            command={trainerCommand(run, location.origin)}
            needs={{ scope: "trainer", run: run.name }}
          >
            Its trainer sends batch size and lengths when it registers. Later changes are listed beside.
          </EmptyState>
        </Panel>
      ) : (
        <Configuration run={run} />
      )}
      <ChangeHistory run={run} />
    </Panels>
  );
}
