import { useContext, useMemo } from "react";
import { useMetricsRefresh } from "@/api/metrics";
import { lookOf } from "@/charts/look";
import { Guarded } from "@/components/Panels";
import { SharingContext } from "@/share/focus";
import { Panel, type WallView } from "@/wall/Panel";
import { type PanelSpec, requestsOf } from "@/wall/panels";
import css from "./wall.module.css";

type Props = {
  panels: readonly PanelSpec[];
  view: WallView;
  /** Names that all presets are requested with; defaults to theirs. */
  together?: readonly string[];
  className?: string;
  /** Keys of the panels that the address names; absent where panels cannot be chosen. */
  chosen?: readonly string[];
  onToggle?: (key: string) => void;
  /** Current values of the page by the key of a panel. */
  current?: Record<string, number | null | undefined>;
};

/** Rendered alone when a run announces metrics. */
function Refresh({ runs, isLive }: Pick<WallView, "runs" | "isLive">) {
  useMetricsRefresh(runs, isLive);
  return null;
}

/** Panels of one to many runs with a common axis, range and legend; each fails alone. */
export function Wall({ panels, view, together, className = css.wall, chosen, onToggle, current }: Props) {
  const looks = useContext(SharingContext)?.looks;
  const requests = useMemo(() => {
    const alone = new Set(panels.flatMap(({ key }) => (lookOf(looks?.[key]).x === undefined ? [] : [key])));
    return requestsOf(panels, { runs: view.runs.length, alone, together });
  }, [panels, view.runs.length, together, looks]);
  return (
    <div className={className}>
      <Refresh runs={view.runs} isLive={view.isLive} />
      <Guarded>
        {panels.map((spec) => (
          <Panel
            key={spec.key}
            spec={spec}
            view={view}
            names={requests.get(spec.key)}
            isChosen={chosen?.includes(spec.key)}
            onToggle={onToggle}
            current={current?.[spec.key]}
          />
        ))}
      </Guarded>
    </div>
  );
}
