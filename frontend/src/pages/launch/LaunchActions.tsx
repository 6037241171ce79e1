import { Button } from "@mantine/core";
import { useMayOperate } from "@/api/session";
import type { RunCheck } from "@/api/types";
import { Chip } from "@/components/Chip";
import { RESULTS } from "@/pages/launch/Findings";
import { focusInside } from "@/pages/launch/focusing";
import type { LaunchState } from "@/pages/launch/useLaunch";
import css from "./tiers.module.css";

export type Check = { data: RunCheck | undefined; isPending: boolean; isOld: boolean; run: () => void };
type Props = { state: LaunchState; check: Check; isLaunching: boolean; onSave: () => void };

/** The state of the form, and its actions; they stay at the bottom of the window. */
export function LaunchActions({ state, check, isLaunching, onSave }: Props) {
  const mayOperate = useMayOperate();
  const wrong = Object.keys(state.errors.fields).length;
  const result = check.data && !check.isOld ? RESULTS[check.data.result] : undefined;
  return (
    <div className={css.actions} role="group" aria-label="Actions">
      <div className={css.state}>
        {wrong > 0 && (
          <span className="small bad" role="alert">
            {wrong === 1 ? "One field" : `${wrong} fields`} with errors.
          </span>
        )}
        {state.errors.loose.length > 0 && <span className="small bad">Run not created.</span>}
        {result && (
          <button
            type="button"
            className={css.result}
            onClick={() => focusInside(document.querySelector<HTMLElement>("[data-result]") ?? undefined)}
          >
            <Chip tone={result.tone} sign={result.sign}>
              {result.words}
            </Chip>
          </button>
        )}
        {wrong === 0 && !result && (
          <span className="small faint">
            {mayOperate
              ? "Check validates and stores nothing. Launch starts the fleet, which waits for a trainer's weights."
              : "Launching requires the operator role."}
          </span>
        )}
      </div>
      <Button variant="subtle" disabled={!mayOperate} onClick={onSave}>
        Save as preset…
      </Button>
      <Button variant="default" loading={check.isPending} disabled={!mayOperate} onClick={check.run}>
        Check
      </Button>
      <Button type="submit" loading={isLaunching} disabled={!mayOperate}>
        Launch
      </Button>
    </div>
  );
}
