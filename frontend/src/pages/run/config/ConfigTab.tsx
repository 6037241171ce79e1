import { Code } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { schemaQuery } from "@/api/runs";
import type { RunDetail } from "@/api/types";
import { Copy, Panel, Panels } from "@/components/panels";
import { visible } from "@/format";
import { presetsQuery } from "@/forms/api";
import { ChangeList } from "@/forms/ChangeList";
import { baseOf, changesOf, startsOf } from "@/forms/launch";
import { type Config, completed, edited } from "@/forms/schema";
import { History } from "@/pages/run/logs/Events";
import { NoDataYet } from "@/pages/run/NoDataYet";
import { useRun } from "@/pages/run/RunContext";

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

/** The kinds of events that change the state or the settings of a run. */
const KINDS = [
  ...["created", "status", "settings_changed", "environment_changed", "archived", "epoch_opened"],
  ...["batch_released", "batch_discarded", "trainer_registered", "environment_registered", "fleet_launched", "tokenizer_set"],
].join(",");

/** The run's configuration as launched, and all later changes with author, time and reason. */
export function ConfigTab() {
  const { run } = useRun();
  const text = JSON.stringify(run.config, null, 2);
  const isStored = run.kind !== "outside";
  return (
    <Panels>
      <Panel
        title="Configuration"
        note={isStored && (run.preset ? `as launched from preset ${run.preset}` : "as launched")}
        columns={6}
        aside={isStored && <Copy text={text} words="Copy as JSON" size="compact-sm" />}
      >
        {isStored ? (
          <>
            <Differing run={run} />
            <details>
              <summary>All values</summary>
              <Code block tabIndex={0} role="group" aria-label="Configuration">
                {visible(text)}
              </Code>
            </details>
          </>
        ) : (
          <NoDataYet title="This run has no stored configuration">
            Its trainer sends batch size and lengths when it registers. Later changes are listed beside.
          </NoDataYet>
        )}
      </Panel>
      <History title="Changes" kinds={KINDS} columns={6} />
    </Panels>
  );
}
