import { SegmentedControl } from "@mantine/core";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { Copy } from "@/components/Copying";
import { ErrorState } from "@/components/ErrorState";
import { ChangeList } from "@/pages/launch/ChangeList";
import { cliCommand, curlCommand, type Launch } from "@/pages/launch/commands";
import { Findings } from "@/pages/launch/Findings";
import type { Check } from "@/pages/launch/LaunchActions";
import { ResolvedConfig } from "@/pages/launch/ResolvedConfig";
import { fieldOfChange, reasonHidden } from "@/pages/launch/tiers";
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
  /** Name of the preset or run that the changes refer to. */
  from: string;
  launch: Launch;
  check: Check;
  onGo: (path: string) => void;
};

/** The resulting launch: findings of a check, changes and configuration. */
export function LaunchAside({ state, from, launch, check, onGo }: Props) {
  const { view = "changes" } = useSearch({ from: "/shell/runs/new" });
  const navigate = useNavigate({ from: "/runs/new" });
  const whyHidden = (path: string) => {
    const field = fieldOfChange(state.sections, path);
    return field && state.tiers.hidden.includes(field) ? reasonHidden(state.sections, field, state.whole) : "";
  };
  const reset = (path: string) => {
    const field = fieldOfChange(state.sections, path);
    if (field) state.change(field.path, state.standard[field.path] ?? "");
  };
  return (
    <aside className="launch-aside panel section" aria-label="Launch">
      {state.errors.loose.length > 0 && <ErrorState title="Run not created" error={state.errors.loose.join(" ")} />}
      {check.data && <Findings check={check.data} isOld={check.isOld} onGo={onGo} />}
      <SegmentedControl
        fullWidth
        size="xs"
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
      {view === "changes" && <ChangeList changes={state.changes} from={from} notes={{ whyHidden, onReset: reset, onGo }} />}
      {view === "config" && <ResolvedConfig state={state} />}
      {view === "copy" && (
        <>
          <Copied label="Command" text={cliCommand(launch)} />
          <Copied label="curl" text={curlCommand(launch, location.origin)} />
        </>
      )}
    </aside>
  );
}
