import { Button, SegmentedControl } from "@mantine/core";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { useMayOperate } from "@/api/session";
import type { RunCheck } from "@/api/types";
import { Copy } from "@/components/Copying";
import { ErrorState } from "@/components/ErrorState";
import type { SavedPreset } from "@/pages/launch/api";
import { ChangeList } from "@/pages/launch/ChangeList";
import { cliCommand, curlCommand, type Launch } from "@/pages/launch/commands";
import { Findings } from "@/pages/launch/Findings";
import { ResolvedConfig } from "@/pages/launch/ResolvedConfig";
import { SavePreset } from "@/pages/launch/SavePreset";
import type { LaunchState } from "@/pages/launch/useLaunch";

export type View = "changes" | "config" | "copy";

function Copied({ label, text }: { label: string; text: string }) {
  return (
    <div className="copy-block">
      <div className="copy-head">
        <span className="small soft">{label}</span>
        <Copy text={text} label={`Copy ${label}`} />
      </div>
      <pre className="mono tiny copy-text" tabIndex={0} role="group" aria-label={label}>
        {text}
      </pre>
    </div>
  );
}

type Props = {
  state: LaunchState;
  start: string;
  /** The saved preset that the form started from, and all saved presets. */
  preset: SavedPreset | undefined;
  saved: SavedPreset[];
  from: string;
  launch: Launch;
  check: { data: RunCheck | undefined; isPending: boolean; isOld: boolean; run: () => void };
  isLaunching: boolean;
};

/** The resulting launch: validation, configuration and the launch button. */
export function LaunchAside({ state, start, preset, saved, from, launch, check, isLaunching }: Props) {
  const mayOperate = useMayOperate();
  const { view = "changes" } = useSearch({ from: "/shell/runs/new" });
  const navigate = useNavigate({ from: "/runs/new" });
  const [isSaving, setSaving] = useState(false);
  const wrong = Object.keys(state.errors.fields).length;
  return (
    <aside className="launch-aside panel section" aria-label="Launch">
      <div className="launch-buttons">
        <Button type="submit" loading={isLaunching} disabled={!mayOperate}>
          Launch
        </Button>
        <Button variant="default" loading={check.isPending} disabled={!mayOperate} onClick={check.run}>
          Check
        </Button>
        <Button variant="default" className="whole-row" disabled={!mayOperate} onClick={() => state.validate(false) && setSaving(true)}>
          Save as preset…
        </Button>
      </div>
      <p className="tiny faint launch-note">
        {mayOperate
          ? "Check validates without launching or storing anything. Launch starts the fleet, which then waits for a trainer's weights."
          : "Launching requires the operator role."}
      </p>
      {wrong > 0 && (
        <p className="small bad" role="alert">
          {wrong === 1 ? "One field" : `${wrong} fields`} with errors.
        </p>
      )}
      {state.errors.loose.length > 0 && <ErrorState title="Run not created" error={state.errors.loose.join(" ")} />}
      {check.data && <Findings check={check.data} isOld={check.isOld} />}
      <SegmentedControl
        fullWidth
        size="xs"
        mt="md"
        mb="sm"
        aria-label="View"
        data={[
          { value: "changes", label: `Changes (${state.changes.length})` },
          { value: "config", label: "Config" },
          { value: "copy", label: "Copy as" },
        ]}
        value={view}
        onChange={(value) => void navigate({ search: (old) => ({ ...old, view: value as View }), replace: true })}
      />
      {view === "changes" && <ChangeList changes={state.changes} from={from} />}
      {view === "config" && <ResolvedConfig state={state} />}
      {view === "copy" && (
        <>
          <Copied label="Command" text={cliCommand(launch)} />
          <Copied label="curl" text={curlCommand(launch, location.origin)} />
        </>
      )}
      {isSaving && (
        <SavePreset config={state.config} runName={state.name} start={start} from={preset} saved={saved} onClose={() => setSaving(false)} />
      )}
    </aside>
  );
}
