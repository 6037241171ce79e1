import { ActionIcon } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { Focus, X } from "lucide-react";
import type { Controlled } from "@/charts/controllableState";
import { lineStyleAt } from "@/charts/lineStyles";
import { isolated, toggled } from "@/charts/names";
import { Swatch } from "@/charts/Swatch";
import { visible } from "@/format";
import { lookOf } from "@/theme/chips";
import css from "./compare.module.css";
import type { ComparedRun } from "./useComparedRuns";

type Props = { chosen: ComparedRun[]; hidden: Controlled<readonly string[]>; onTakeOut: (run: string) => void };

/** The compared runs with their chart styles; each chip toggles its run. */
export function RunChips({ chosen, hidden, onTakeOut }: Props) {
  const names = chosen.filter(({ problem }) => !problem).map(({ name }) => name);
  const isAlone = (name: string) => names.length > 1 && isolated(names, hidden.value, name).length === 0;
  return (
    <ul className={css.chips} aria-label="Compared runs">
      {chosen.map(({ name, run, problem }, i) => (
        <li key={name} className={css.chip} data-run={name}>
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
                onClick={() => hidden.change(toggled(hidden.value, name))}
              >
                <Swatch look={lineStyleAt(i)} />
              </button>
              <Link to="/runs/$name" params={{ name }} className={css.name} data-hidden={hidden.value.includes(name) || undefined}>
                {name}
              </Link>
              {run && (
                <span className={`tone-${lookOf(run.status).tone} ${css.state}`} title={`${run.status}. ${lookOf(run.status).meaning}`}>
                  <span aria-hidden="true">{lookOf(run.status).sign}</span>
                  <span className="unseen">{run.status}</span>
                </span>
              )}
            </>
          )}
          {!problem && chosen.length > 1 && (
            <ActionIcon
              size={24}
              radius="xl"
              variant="subtle"
              color="gray"
              aria-label={`Show only ${name}`}
              aria-pressed={isAlone(name)}
              title={isAlone(name) ? "Show all runs" : "Show this run alone"}
              onClick={() => hidden.change(isolated(names, hidden.value, name))}
            >
              <Focus size={13} aria-hidden="true" />
            </ActionIcon>
          )}
          <ActionIcon size={24} radius="xl" variant="subtle" color="gray" aria-label={`Remove ${name}`} onClick={() => onTakeOut(name)}>
            <X size={13} aria-hidden="true" />
          </ActionIcon>
        </li>
      ))}
    </ul>
  );
}
