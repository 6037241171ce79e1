import { Button, Checkbox, Select, TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useRef, useState } from "react";
import type { WorkerRow } from "@/api/types";
import { fileName, save } from "@/charts/save";
import { SideSheet } from "@/components/Dialog";
import { Age } from "@/components/inline";
import { ErrorState } from "@/components/panels";
import { clock, visible } from "@/format";
import { type FleetPlace, logQuery } from "@/pages/run/fleet/api";
import { type Level, levelsOf, lineAt, reaches, timeOf } from "@/pages/run/logs/levels";
import logCss from "@/pages/run/logs/logs.module.css";
import { plain, wantedLine } from "@/pages/run/logs/logText";

const LINES = 1000;
const TYPING_MS = 250;
const LEVEL_OPTIONS = [
  { value: "info", label: "info and above" },
  { value: "warning", label: "warnings and errors" },
  { value: "error", label: "errors" },
];

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

type Props = {
  run: string;
  workers: WorkerRow[];
  place: FleetPlace;
  /** The linked moment, in ms since 1970. */
  at?: number;
  /** Minimum shown level, if the page stores it. */
  level?: Level;
  /** The searched text at first. */
  words?: string;
  onPlace: (place: FleetPlace) => void;
  onLevel?: (level: Level | undefined) => void;
  onWords?: (words: string) => void;
  onClose: () => void;
};

type Row = { text: string; level: Level | null };
type Wanted = { words: string; level: Level | undefined; at: number | undefined };

/** The filtered log lines, and whether any line has a level or a time. */
function lookedThrough(lines: readonly string[], { words, level, at }: Wanted) {
  const levels = levelsOf(lines);
  const hasWords = words.trim() ? wantedLine(words) : () => true;
  const rows = lines
    .map((text, place): Row => ({ text, level: levels[place] ?? null }))
    .filter((row) => hasWords?.(row.text) && (level === undefined || reaches(row.level, level)));
  return {
    rows,
    hasLevels: levels.some((each) => each !== null),
    mark:
      at === undefined
        ? null
        : lineAt(
            rows.map(({ text }) => text),
            at,
          ),
    isTimed: lines.some((line) => timeOf(line) !== null),
  };
}

/** Why the linked moment was not found; empty if it was. */
function missedText(isTimed: boolean, at: number): string {
  const moment = clock(at);
  return isTimed
    ? `No lines at or after ${moment}; showing the newest lines.`
    : `The lines of this log have no timestamps, so ${moment} cannot be found.`;
}

/** The newest log lines of a fleet process, followed by polling. */
export default function LogsDrawer({
  run,
  workers,
  place,
  at,
  level: keptLevel,
  words: firstWords = "",
  onPlace,
  onLevel,
  onWords,
  onClose,
}: Props) {
  const [ownLevel, setOwnLevel] = useState<Level>();
  const level = onLevel ? keptLevel : ownLevel;
  // A linked moment stays in place instead of following.
  const [follows, setFollows] = useState(at === undefined);
  const [words, setWords] = useState(firstWords);
  const keepWords = useDebouncedCallback((text: string) => onWords?.(text), TYPING_MS);
  const { data, error, isFetching } = useQuery(logQuery(run, place, LINES, follows));
  const isThis = data?.worker === place.worker && data?.slot === place.slot;
  const read = useMemo(() => (isThis ? data.lines.map(plain) : []), [isThis, data?.lines]);
  const { rows, hasLevels, mark, isTimed } = useMemo(() => lookedThrough(read, { words, level, at }), [read, words, level, at]);
  return (
    <SideSheet onClose={onClose} size="xl" title={`Log of ${name(place)}`}>
      <div className={logCss.logTools}>
        <Select
          label="Process"
          size="xs"
          searchable
          allowDeselect={false}
          data={places(workers)}
          value={JSON.stringify(place)}
          onChange={(value) => value && onPlace(JSON.parse(value) as FleetPlace)}
        />
        <TextInput
          label="Search"
          placeholder="text or /regex/"
          size="xs"
          value={words}
          error={wantedLine(words) ? undefined : "Invalid expression, or it might not terminate."}
          onChange={(event) => {
            setWords(event.currentTarget.value);
            keepWords(event.currentTarget.value);
          }}
        />
        <Select
          label="Level"
          size="xs"
          clearable
          placeholder="all"
          data={LEVEL_OPTIONS}
          value={level ?? null}
          disabled={read.length > 0 && !hasLevels}
          title={hasLevels ? undefined : "The lines of this log have no level"}
          onChange={(value) => (onLevel ?? setOwnLevel)((value as Level | null) ?? undefined)}
        />
        <Button
          size="xs"
          variant="default"
          disabled={rows.length === 0}
          title="Save the shown lines as a text file"
          onClick={() =>
            save(new Blob([rows.map(({ text }) => `${text}\n`).join("")], { type: "text/plain" }), fileName(`${run}-${name(place)}`, "log"))
          }
        >
          Download
        </Button>
        <Checkbox label="Follow" size="xs" checked={follows} onChange={(event) => setFollows(event.currentTarget.checked)} />
      </div>
      {error ? (
        <ErrorState title="Log unavailable" error={error} />
      ) : (
        <>
          <p className={`small soft ${logCss.logStatus}`} data-log-status>
            {isThis && data.read_at ? (
              <>
                read <Age at={data.read_at} suffix=" ago" /> on {visible(data.node)}, {visible(data.path)}
              </>
            ) : (
              isFetching && <span role="status">Loading …</span>
            )}
            {isThis && data.note && (
              <span role="status" className={data.state === "read" ? "" : "held"}>
                {" "}
                {visible(data.note)}
              </span>
            )}
          </p>
          {read.length > 0 && !hasLevels && (
            <p className="small faint" role="note">
              No line of this log has a level, so none is filtered.
            </p>
          )}
          {at !== undefined && read.length > 0 && mark === null && (
            <p className="small held" role="note">
              {missedText(isTimed, at)}
            </p>
          )}
          {isThis && rows.length === 0 && data.state === "read" ? (
            <p className="faint">{words || level ? "No matching lines." : "The log is empty."}</p>
          ) : (
            <LogLines rows={rows} mark={mark} />
          )}
        </>
      )}
    </SideSheet>
  );
}

/** Log lines, scrolled to a marked line, or to the end unless the user scrolled up. */
function LogLines({ rows, mark }: { rows: Row[]; mark: number | null }) {
  const box = useRef<HTMLPreElement>(null);
  const atEnd = useRef(true);
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
      {rows.map(({ text, level }, place) => (
        // Lines have no key but their index.
        <span key={place} data-level={level ?? undefined} data-marked={place === mark || undefined}>
          {text}
          {"\n"}
        </span>
      ))}
    </pre>
  );
}
