import { Checkbox, Drawer, Select, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { type FleetPlace, logQuery } from "@/api/fleet";
import type { WorkerRow } from "@/api/types";
import { Age } from "@/components/Age";
import { ErrorState } from "@/components/ErrorState";
import { visible } from "@/format";
import { matching, plain, wantedLine } from "@/pages/run/logs/logText";

const LINES = ["100", "300", "1000"];
const AROUND = ["0", "3", "10"];

function name({ worker, slot }: FleetPlace): string {
  if (worker === null) return "manager";
  return slot === null ? `worker ${worker}` : `worker ${worker}, slot ${slot}`;
}

function places(workers: WorkerRow[]): { value: string; label: string }[] {
  const all: FleetPlace[] = [{ worker: null, slot: null }];
  for (const { index, slots } of workers) {
    all.push({ worker: index, slot: null });
    all.push(...slots.map(({ slot }) => ({ worker: index, slot })));
  }
  return all.map((place) => ({ value: JSON.stringify(place), label: name(place) }));
}

/** The lines, at their end as long as the reader has not scrolled up. */
function Lines({ lines }: { lines: string[] }) {
  const box = useRef<HTMLPreElement>(null);
  const atEnd = useRef(true);
  // New lines are the reason to scroll.
  useEffect(() => {
    if (box.current && atEnd.current) box.current.scrollTop = box.current.scrollHeight;
  }, [lines]);
  return (
    <pre
      ref={box}
      className="log"
      tabIndex={0}
      aria-label="Log, oldest line first"
      onScroll={({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) => {
        atEnd.current = scrollHeight - scrollTop - clientHeight < 24;
      }}
    >
      {lines.map((line, at) => (
        // Lines have no name but their place.
        <span key={at} className={line.startsWith("---") ? "faint" : undefined}>
          {line}
          {"\n"}
        </span>
      ))}
    </pre>
  );
}

type Props = { run: string; workers: WorkerRow[]; place: FleetPlace; onPlace: (place: FleetPlace) => void; onClose: () => void };

/** What a process of the fleet wrote last, followed by polling. */
export default function LogsDrawer({ run, workers, place, onPlace, onClose }: Props) {
  const [follows, setFollows] = useState(true);
  const [lines, setLines] = useState("300");
  const [words, setWords] = useState("");
  const [around, setAround] = useState("0");
  const { data, error, isFetching } = useQuery(logQuery(run, place, Number(lines), follows));
  const isThis = data?.worker === place.worker && data?.slot === place.slot;
  const shown = isThis ? matching(data.lines.map(plain), words, Number(around)) : [];
  return (
    <Drawer opened onClose={onClose} position="right" size="xl" title={`Log of ${name(place)}`} closeButtonProps={{ "aria-label": "Close" }}>
      <div className="log-tools">
        <Select
          label="Of"
          size="xs"
          searchable
          allowDeselect={false}
          data={places(workers)}
          value={JSON.stringify(place)}
          onChange={(value) => value && onPlace(JSON.parse(value) as FleetPlace)}
        />
        <Select label="Lines" size="xs" allowDeselect={false} data={LINES} value={lines} onChange={(value) => value && setLines(value)} />
        <TextInput label="With the words" placeholder="or /an expression/" size="xs" value={words} error={wantedLine(words) ? undefined : "This expression cannot be read."} onChange={(event) => setWords(event.currentTarget.value)} />
        {words.trim() && <Select label="Lines around" size="xs" allowDeselect={false} data={AROUND} value={around} onChange={(value) => value && setAround(value)} />}
        <Checkbox label="Follow" size="xs" checked={follows} onChange={(event) => setFollows(event.currentTarget.checked)} />
      </div>
      {error ? (
        <ErrorState title="This log cannot be read" error={error} />
      ) : (
        <>
          <p className="small soft log-status" role="status">
            {isThis && data.read_at ? (
              <>
                read <Age at={data.read_at} suffix=" ago" /> on {visible(data.node)}, {visible(data.path)}
              </>
            ) : (
              isFetching && "Asking the fleet …"
            )}
            {isThis && data.note && <span className={data.state === "read" ? "" : "held"}> {visible(data.note)}</span>}
          </p>
          {isThis && shown.length === 0 && data.state === "read" ? (
            <p className="faint">{words ? "No line has these words." : "Nothing was written yet."}</p>
          ) : (
            <Lines lines={shown} />
          )}
        </>
      )}
    </Drawer>
  );
}
