import { Button, Checkbox, MultiSelect, Select, TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { useQueries, useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import type { WorkerRow } from "@/api/types";
import { fileName, save } from "@/charts/save";
import { Age } from "@/components/Age";
import { SideSheet } from "@/components/Dialog";
import { ErrorState } from "@/components/ErrorState";
import { clock, visible } from "@/format";
import { type FleetPlace, logQuery } from "@/pages/run/fleet/api";
import { LogLines, type Row } from "@/pages/run/logs/LogLines";
import { type Level, levelsOf, lineAt, reaches, timeOf } from "@/pages/run/logs/levels";
import logCss from "@/pages/run/logs/logs.module.css";
import { chosen, plain, wantedLine } from "@/pages/run/logs/logText";
import { merged } from "@/pages/run/logs/merged";

const LINES = ["100", "300", "1000"];
const AROUND = ["0", "3", "10"];
/** Each log is read on its node every few seconds. */
const BESIDE_AT_MOST = 5;
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

/** The filtered log lines, and whether any line has a level or a time. */
function lookedThrough(
  lines: readonly string[],
  { words, around, level, at }: { words: string; around: number; level: Level | undefined; at: number | undefined },
) {
  const levels = levelsOf(lines);
  const hasWords = words.trim() ? wantedLine(words) : () => true;
  const shown =
    hasWords === null
      ? []
      : chosen(lines, (line, place) => hasWords(line) && (level === undefined || reaches(levels[place] ?? null, level)), around);
  const rows = shown.map(
    (place): Row => ({ text: place === null ? "---" : (lines[place] ?? ""), level: place === null ? null : (levels[place] ?? null) }),
  );
  const texts = rows.map(({ text }) => text);
  return {
    rows,
    hasLevels: levels.some((each) => each !== null),
    mark: at === undefined ? null : lineAt(texts, at),
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

/** Additional logs, polled like the first one, each as far as loaded. */
function useBeside(run: string, places: readonly string[], lines: number, follows: boolean) {
  const asked = places.map((each) => JSON.parse(each) as FleetPlace);
  const found = useQueries({ queries: asked.map((each) => logQuery(run, each, lines, follows)) });
  return asked.map((each, i) => ({ name: name(each), lines: (found[i]?.data?.lines ?? []).map(plain), error: found[i]?.error ?? null }));
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
  const [lines, setLines] = useState(at === undefined ? "300" : "1000");
  const [words, setWords] = useState(firstWords);
  const keepWords = useDebouncedCallback((text: string) => onWords?.(text), TYPING_MS);
  const [around, setAround] = useState("0");
  const { data, error, isFetching } = useQuery(logQuery(run, place, Number(lines), follows));
  const isThis = data?.worker === place.worker && data?.slot === place.slot;
  const [besides, setBesides] = useState<string[]>([]);
  const others = useBeside(run, besides, Number(lines), follows);
  const own = useMemo(() => (isThis ? data.lines.map(plain) : []), [isThis, data?.lines]);
  const read = others.length === 0 ? own : merged([{ name: name(place), lines: own }, ...others]);
  const { rows, hasLevels, mark, isTimed } = useMemo(
    () => lookedThrough(read, { words, around: Number(around), level, at }),
    [read, words, around, level, at],
  );
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
        <MultiSelect
          label="Merge with"
          placeholder={besides.length === 0 ? "merged by time" : undefined}
          size="xs"
          searchable
          clearable
          maxValues={BESIDE_AT_MOST}
          data={places(workers).filter(({ value }) => value !== JSON.stringify(place))}
          value={besides}
          onChange={setBesides}
        />
        <Select label="Lines" size="xs" allowDeselect={false} data={LINES} value={lines} onChange={(value) => value && setLines(value)} />
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
        {(words.trim() || level) && (
          <Select
            label="Context lines"
            size="xs"
            allowDeselect={false}
            data={AROUND}
            value={around}
            onChange={(value) => value && setAround(value)}
          />
        )}
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
          {others
            .filter(({ error: failed }) => failed)
            .map((each) => (
              <p key={each.name} className="small held" role="note">
                The log of {each.name} is temporarily unavailable.
              </p>
            ))}
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
