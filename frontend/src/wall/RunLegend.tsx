import { ActionIcon } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { Focus, X } from "lucide-react";
import type { RunStatus } from "@/api/types";
import type { Controlled } from "@/charts/controllableState";
import { lineStyleAt, styleText } from "@/charts/lineStyles";
import { isolated, toggled } from "@/charts/names";
import { Swatch } from "@/charts/Swatch";
import { visible } from "@/format";
import { lookOf } from "@/theme/chips";
import css from "./wall.module.css";

type Entry = {
  name: string;
  status?: RunStatus;
  /** Why the run is not shown. */
  problem?: string;
  /** Whether the run is that of the page, which cannot be removed. */
  isFixed?: boolean;
};
type Props = { runs: readonly Entry[]; hidden: Controlled<readonly string[]>; onRemove: (run: string) => void };

/** The one legend of a wall: each run with its style; a click hides or shows its lines in all charts. */
export function RunLegend({ runs, hidden, onRemove }: Props) {
  const names = runs.filter(({ problem }) => !problem).map(({ name }) => name);
  const isAlone = (name: string) => names.length > 1 && isolated(names, hidden.value, name).length === 0;
  const icon = { size: 24, radius: "xl", variant: "subtle", color: "gray" } as const;
  return (
    <ul className={css.legend} aria-label="Compared runs">
      {runs.map(({ name, status, problem, isFixed }, i) => (
        <li key={name} data-run={name}>
          {problem ? (
            <span className="bad small anywhere">
              {visible(name)}: {visible(problem)}
            </span>
          ) : (
            <>
              <button
                type="button"
                className="chart-entry"
                aria-pressed={!hidden.value.includes(name)}
                aria-label={`Show ${name}`}
                title={`${styleText(lineStyleAt(i))}. Click to hide or show.`}
                onClick={() => hidden.change(toggled(hidden.value, name))}
              >
                <Swatch look={lineStyleAt(i)} />
              </button>
              <Link to="/runs/$name" params={{ name }} data-hidden={hidden.value.includes(name) || undefined}>
                {name}
              </Link>
              {status && (
                <span className={`tone-${lookOf(status).tone} ${css.state}`} title={`${status}. ${lookOf(status).meaning}`}>
                  <span aria-hidden="true">{lookOf(status).sign}</span>
                  <span className="unseen">{status}</span>
                </span>
              )}
              {names.length > 1 && (
                <ActionIcon
                  {...icon}
                  aria-label={`Show only ${name}`}
                  aria-pressed={isAlone(name)}
                  title={isAlone(name) ? "Show all runs" : "Show this run alone"}
                  onClick={() => hidden.change(isolated(names, hidden.value, name))}
                >
                  <Focus size={13} aria-hidden="true" />
                </ActionIcon>
              )}
            </>
          )}
          {!isFixed && (
            <ActionIcon {...icon} aria-label={`Remove ${name}`} onClick={() => onRemove(name)}>
              <X size={13} aria-hidden="true" />
            </ActionIcon>
          )}
        </li>
      ))}
    </ul>
  );
}
