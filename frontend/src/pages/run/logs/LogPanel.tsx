import { Button, Checkbox, Select, SimpleGrid, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useRef, useState } from "react";
import type { WorkerRow } from "@/api/types";
import { fileName, save } from "@/charts/save";
import { Age } from "@/components/inline";
import { ErrorState, Panel } from "@/components/panels";
import { visible } from "@/format";
import { type FleetPlace, logQuery } from "@/pages/run/logs/api";
import { type Level, levelsOf, lineAt, reaches } from "@/pages/run/logs/levels";
import logCss from "@/pages/run/logs/logs.module.css";
import { plain, wantedLine } from "@/pages/run/logs/logText";
import { type LogsSearch, textOf } from "@/pages/run/logs/search";

const LINES = 1000;
const LEVEL_OPTIONS = [
  { value: "info", label: "info and above" },
  { value: "warning", label: "warnings and errors" },
  { value: "error", label: "errors" },
];

function nameOf({ worker, slot }: FleetPlace): string {
  if (worker === null) return "manager";
  return slot === null ? `worker ${worker}` : `worker ${worker}, slot ${slot}`;
}

const placesOf = (workers: WorkerRow[]) =>
  [
    { worker: null, slot: null },
    ...workers.flatMap(({ index: worker, slots }) => [{ worker, slot: null }, ...slots.map(({ slot }) => ({ worker, slot }))]),
  ].map((place) => ({ value: textOf(place), label: nameOf(place) }));

type Props = {
  run: string;
  workers: WorkerRow[];
  /** The process; null until one is chosen. */
  place: FleetPlace | null;
  search: LogsSearch;
  onSearch: (changes: LogsSearch) => void;
};

/** The newest log lines of a process of the fleet, read from its node and followed. */
export function LogPanel({ run, workers, place, search, onSearch }: Props) {
  return (
    <Panel title={place ? `Log of ${nameOf(place)}` : "Fleet logs"} note="read from its node on demand">
      <Select
        aria-label="Process"
        placeholder="Process"
        maw="20rem"
        size="xs"
        searchable
        allowDeselect={false}
        data={placesOf(workers)}
        value={place && textOf(place)}
        onChange={(log) => log && onSearch({ log })}
      />
      {place && <Log key={textOf(place)} run={run} place={place} search={search} onSearch={onSearch} />}
    </Panel>
  );
}

function Log({ run, place, search, onSearch }: Omit<Props, "workers"> & { place: FleetPlace }) {
  const { level, at, words = "" } = search;
  // A linked moment stays in place instead of following.
  const [follows, setFollows] = useState(at === undefined);
  const { data, error } = useQuery(logQuery(run, place, LINES, follows));
  const isThis = data?.worker === place.worker && data?.slot === place.slot;
  const read = useMemo(() => (isThis ? data.lines.map(plain) : []), [isThis, data?.lines]);
  const { rows, hasLevels } = useMemo(() => {
    const levels = levelsOf(read);
    const isWanted = wantedLine(words);
    const all = read.map((text, line): Row => ({ text, level: levels[line] ?? null }));
    return {
      rows: all.filter((row) => isWanted?.(row.text) && (level === undefined || reaches(row.level, level))),
      hasLevels: levels.some((each) => each !== null),
    };
  }, [read, words, level]);
  if (error) return <ErrorState title="Log unavailable" error={error} />;
  const download = () =>
    save(new Blob([rows.map(({ text }) => `${text}\n`).join("")], { type: "text/plain" }), fileName(`${run}-${nameOf(place)}`, "log"));
  return (
    <>
      <SimpleGrid cols={{ base: 2, sm: 4 }} spacing="xs" my="xs" style={{ alignItems: "center" }}>
        <TextInput
          aria-label="Search"
          placeholder="text or /regex/"
          size="xs"
          value={words}
          error={wantedLine(words) ? undefined : "Invalid expression, or it might not terminate."}
          onChange={(event) => onSearch({ words: event.currentTarget.value || undefined })}
        />
        <Select
          aria-label="Level"
          size="xs"
          clearable
          placeholder="all levels"
          data={LEVEL_OPTIONS}
          value={level ?? null}
          disabled={read.length > 0 && !hasLevels}
          title={hasLevels ? undefined : "The lines of this log have no level"}
          onChange={(value) => onSearch({ level: (value as Level | null) ?? undefined })}
        />
        <Button size="xs" variant="default" disabled={rows.length === 0} title="Save the shown lines as a text file" onClick={download}>
          Download
        </Button>
        <Checkbox label="Follow" size="xs" checked={follows} onChange={(event) => setFollows(event.currentTarget.checked)} />
      </SimpleGrid>
      <p className="small soft anywhere" data-log-status role="status">
        {isThis && data.read_at ? (
          <>
            read <Age at={data.read_at} suffix=" ago" /> on {visible(data.node)}, {visible(data.path)}
          </>
        ) : (
          !isThis && "Loading …"
        )}
        {isThis && data.note && <span className={data.state === "read" ? "" : "held"}> {visible(data.note)}</span>}
      </p>
      {isThis && rows.length === 0 && data.state === "read" ? (
        <p className="faint">{words || level ? "No matching lines." : "The log is empty."}</p>
      ) : (
        rows.length > 0 && <LogLines rows={rows} at={at} />
      )}
    </>
  );
}

type Row = { text: string; level: Level | null };

/** Log lines, scrolled to the first one at a moment, or to the end unless the user scrolled up. */
function LogLines({ rows, at }: { rows: Row[]; at: number | undefined }) {
  const box = useRef<HTMLPreElement>(null);
  const atEnd = useRef(true);

  const mark =
    at === undefined
      ? null
      : lineAt(
          rows.map(({ text }) => text),
          at * 1000,
        );
  // Scroll when lines arrive.
  useEffect(() => {
    if (box.current && atEnd.current && mark === null) box.current.scrollTop = box.current.scrollHeight;
  }, [rows, mark]);
  useEffect(() => {
    if (mark !== null) box.current?.querySelector("[data-marked]")?.scrollIntoView({ block: "center" });
  }, [mark]);
  return (
    <pre
      ref={box}
      className={logCss.log}
      tabIndex={0}
      role="group"
      aria-label="Log, oldest line first"
      onScroll={({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) => {
        atEnd.current = scrollHeight - scrollTop - clientHeight < 24;
      }}
    >
      {rows.map(({ text, level }, line) => (
        // Lines have no key but their index.
        <span key={line} data-level={level ?? undefined} data-marked={line === mark || undefined}>
          {text}
          {"\n"}
        </span>
      ))}
    </pre>
  );
}
