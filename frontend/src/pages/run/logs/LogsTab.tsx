import { Button } from "@mantine/core";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { Panels } from "@/components/panels";
import { moment } from "@/format";
import { History } from "@/pages/run/logs/Events";
import { LogPanel } from "@/pages/run/logs/LogPanel";
import { type LogsSearch, processOf } from "@/pages/run/logs/search";
import { useRun, useRunPart } from "@/pages/run/RunContext";

/** The logs of the fleet's processes, and all events. */
export function LogsTab() {
  const { run } = useRun();
  const fleet = useRunPart("fleet");
  const search = useSearch({ from: "/shell/runs/$name/logs" });
  const navigate = useNavigate({ from: "/runs/$name/logs" });
  const change = (changes: LogsSearch) => void navigate({ search: (old) => ({ ...old, ...changes }), replace: true, resetScroll: false });
  const { at } = search;
  return (
    <>
      {at !== undefined && (
        <p className="small soft" role="status">
          Marked: the last event and the first log line at {moment(at * 1000)}.{" "}
          <Button size="compact-xs" variant="default" onClick={() => change({ at: undefined })}>
            Clear
          </Button>
        </p>
      )}
      <Panels>
        {run.kind !== "outside" && (
          <LogPanel run={run.name} workers={fleet?.workers ?? []} place={processOf(search.log)} search={search} onSearch={change} />
        )}
        <History at={at && at * 1000} />
      </Panels>
    </>
  );
}
