import { Button } from "@mantine/core";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { onDemand } from "@/components/onDemand";
import { Panel, Panels } from "@/components/panels";
import { Events } from "@/pages/run/logs/Events";
import { processOf, textOf } from "@/pages/run/logs/logAddress";
import logCss from "@/pages/run/logs/logs.module.css";
import { useRun } from "@/pages/run/RunContext";

const LogsDrawer = onDemand(() => import("@/pages/run/logs/LogsDrawer"), "default");

/** Events, newest first, and the logs of the fleet's processes. */
export function LogsTab() {
  const { run, fleet, events } = useRun();
  const { log, at, level, words } = useSearch({ from: "/shell/runs/$name/logs" });
  const navigate = useNavigate({ from: "/runs/$name/logs" });
  const open = (text: string | undefined) => void navigate({ search: (old) => ({ ...old, log: text, words: text && old.words }) });
  const atMs = at === undefined ? undefined : at * 1000;
  const workers = fleet?.workers ?? [];
  const place = log === undefined ? null : processOf(log);
  return (
    <Panels>
      {run.kind !== "outside" && (
        <Panel title="Fleet logs" note="read from their nodes on demand">
          <div className={logCss.logPlaces}>
            <Button size="compact-sm" variant="default" onClick={() => open("manager")}>
              Manager
            </Button>
            {workers.map(({ index }) => (
              <Button key={index} size="compact-sm" variant="default" onClick={() => open(String(index))}>
                Worker {index}
              </Button>
            ))}
          </div>
        </Panel>
      )}
      <Events events={events} at={atMs} onLeave={() => void navigate({ search: (old) => ({ ...old, at: undefined }) })} />
      {place && (
        <LogsDrawer
          run={run.name}
          workers={workers}
          place={place}
          at={atMs}
          level={level}
          words={words}
          onWords={(next) => void navigate({ search: (old) => ({ ...old, words: next || undefined }), replace: true })}
          onPlace={(to) => open(textOf(to))}
          onLevel={(next) => void navigate({ search: (old) => ({ ...old, level: next }), replace: true })}
          onClose={() => open(undefined)}
        />
      )}
    </Panels>
  );
}
