import { Checkbox, VisuallyHidden } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { ArrowDown, ArrowUp } from "lucide-react";
import { memo, type ReactNode, useEffect, useMemo, useRef } from "react";
import { Chip, ChipAge } from "@/components/chips";
import { Age } from "@/components/inline";
import { Boundary } from "@/components/panels";
import { Row, TABLE } from "@/components/Table";
import { count, counted, number, policyStep, shortId, visible } from "@/format";
import { MarkCell } from "@/marks/MarkBar";
import { ScoreDots } from "@/samples/ScoreDots";
import type { Sample } from "@/samples/samples";
import styles from "@/samples/samples.module.css";
import type { Fact, SampleKind, Sort, SortName } from "@/samples/search";

export const ROW_PX = 34;
/** Longer lists draw only the visible rows. */
const VIRTUAL_ROWS = 100;
const NONE: ReadonlySet<string> = new Set();

/** Flags in lists; their tooltip has the words of the filter. */
const SHORT_FLAGS: Record<string, string> = { truncated: "cut", zero_variance: "0 var", duplicate: "dup", quarantined: "quar" };
const LOOKS: Record<string, [string, string]> = {
  waiting: ["quiet", "◔"],
  queued: ["busy", "▸"],
  leased: ["held", "◑"],
  served: ["good", "✓"],
  quarantined: ["bad", "!"],
  dropped: ["bad", "×"],
};

type StateProps = { state: string; why: string; step: number | null };

/** The state of a group or fragment, with the cause of its drop or the ordinal of the batch that holds it. */
export function SampleState({ state, why, step }: StateProps) {
  const [tone, sign] = LOOKS[state] ?? ["quiet", "·"];
  const more = why || (step === null ? "" : `batch ${number(step)}`);
  return (
    <Chip tone={tone} sign={sign} title={more || undefined}>
      {state}
      {more && <ChipAge>{more}</ChipAge>}
    </Chip>
  );
}

export type TableProps = {
  samples: Sample[];
  kind: SampleKind;
  /** Whether the rows are of several runs. */
  hasRuns?: boolean;
  /** Parameters of the list, kept by links to its samples. */
  list?: { q?: string; sort?: Sort; columns?: string };
  /** Metadata and overrides as further columns. */
  columns?: Fact[];
  sort?: Sort;
  /** Absent in lists of a fixed order. */
  onSort?: (name: SortName) => void;
  chosen?: ReadonlySet<string>;
  /** Absent if rows cannot be selected. */
  onChoose?: (ids: string[], isOn: boolean) => void;
  /** All groups have the same prompt: rows begin with their answers, and are selected one by one. */
  isOnePrompt?: boolean;
  /** Called when the last rows are drawn. */
  onEnd?: () => void;
};

type Column = {
  label: string;
  sort?: SortName;
  className?: string;
  isNumber?: boolean;
  title?: string;
  /** A title of each cell. */
  titleOf?: (sample: Sample) => string | undefined;
  cell: (sample: Sample) => ReactNode;
};

function nameOf({ kind, id, slot, number: place }: Sample): string {
  if (kind === "fragment") return `${shortId(slot)} · ${number(place)}`;
  if (kind === "group") return `Group ${id}`;
  const at = id.lastIndexOf("/");
  return `Episode ${id.slice(at + 1)} of ${shortId(id.slice(0, at))}`;
}

/** Link to the reader of a sample: the texts of a group, the name of another. */
export function SampleTitle({ sample, list, isOnePrompt }: Pick<TableProps, "list" | "isOnePrompt"> & { sample: Sample }) {
  const { kind, id, run, excerpt, answer, slot } = sample;
  const params = { name: run };
  if (kind === "episode") {
    return (
      <Link to="/runs/$name/transcript" params={params} search={{ episode: id }} title={visible(id)} data-open>
        {visible(nameOf(sample))}
      </Link>
    );
  }
  if (kind === "fragment") {
    return (
      <Link to="/runs/$name/fragments/$fragment" params={{ ...params, fragment: id }} title={visible(slot)} data-open>
        {visible(nameOf(sample))}
      </Link>
    );
  }
  const title = visible((isOnePrompt && answer) || excerpt);
  return (
    <>
      <Link to="/runs/$name/groups/$group" params={{ ...params, group: id }} search={list ?? {}} title={title} data-open>
        {title || nameOf(sample)}
      </Link>
      {answer && !isOnePrompt && (
        <span className={`mantine-visible-from-sm ${styles.answer}`} title={visible(answer)}>
          {visible(answer)}
        </span>
      )}
    </>
  );
}

type LineProps = Pick<TableProps, "onChoose"> & { sample: Sample; columns: Column[]; isChosen: boolean };

const Line = memo(function Line({ sample, columns, isChosen, onChoose }: LineProps) {
  const { id, kind } = sample;
  return (
    <tr data-opens data-row data-sample={id} data-group={kind === "group" ? id : undefined} data-selected={isChosen || undefined}>
      {onChoose && (
        <td className={styles.pick}>
          <Checkbox
            size="xs"
            aria-label={`Select group ${id}`}
            checked={isChosen}
            onChange={(event) => onChoose([id], event.currentTarget.checked)}
          />
        </td>
      )}
      {columns.map(({ label, sort, className, isNumber, titleOf, cell }) => (
        <td key={`${sort} ${label}`} className={className} data-num={isNumber || undefined} title={titleOf?.(sample)}>
          {cell(sample)}
        </td>
      ))}
    </tr>
  );
});

/** The share of correct sequences. */
const SOLVED: Column = {
  label: "Solved",
  sort: "solved",
  className: "mantine-visible-from-sm",
  isNumber: true,
  title: "Correct sequences of the group, by the environment's report",
  cell: ({ correct, sequences }) => (correct === null ? "–" : `${number(correct)}/${number(sequences)}`),
};

/** The range of the advantages of a group. */
const ADVANTAGE: Column = {
  label: "Advantage",
  className: "mantine-visible-from-sm",
  isNumber: true,
  title: "Least and greatest mean advantage of its sequences",
  cell: ({ advantages }) => {
    const known = advantages.filter((one) => one !== null);
    if (known.length === 0) return "–";
    const [least, most] = [Math.min(...known), Math.max(...known)];
    return (
      <span title={known.map((one) => number(one)).join(", ")}>
        {least === most ? number(least) : `${number(least)} … ${number(most)}`}
      </span>
    );
  },
};

/** A column of metadata or an override. */
const factColumn = (fact: Fact): Column => ({
  label: visible(fact.slice(fact.indexOf(".") + 1)),
  sort: fact,
  className: styles.fact,
  title: visible(fact.startsWith("meta.") ? `Metadata ${fact.slice(5)}` : `Override ${fact.slice(9)}`),
  cell: ({ columns }) => {
    const value = columns[fact];
    const text = visible(Array.isArray(value) ? value.join(", ") : String(value ?? "–"));
    return typeof value === "number" ? <span title={String(value)}>{number(value)}</span> : <span title={text}>{text}</span>;
  },
});

const fromOf = ({ lesson, environment }: Sample) => visible(lesson || environment);

/** The range of all scores, which the dots of all rows share. */
function scaleOf(samples: Sample[]) {
  const scores = samples.flatMap((sample) => [sample.score_min, sample.score_max]).filter((score) => score !== null);
  return {
    least: scores.reduce((one, other) => Math.min(one, other), Number.POSITIVE_INFINITY),
    most: scores.reduce((one, other) => Math.max(one, other), Number.NEGATIVE_INFINITY),
  };
}

function columnsOf({ samples, kind, hasRuns, isOnePrompt, list, columns: facts = [] }: TableProps): Column[] {
  const isGroup = kind === "group";
  const scale = scaleOf(samples);
  const columns: (Column | false)[] = [
    {
      label: isOnePrompt ? "Answer" : { group: "Prompt → answer", episode: "Episode", fragment: "Slot · fragment" }[kind],
      className: styles.what,
      cell: (sample) => (
        <div className={styles.texts}>
          <SampleTitle sample={sample} list={list} isOnePrompt={isOnePrompt} />
        </div>
      ),
    },
    isGroup && {
      label: "Tags",
      cell: ({ flags, mark }) => (
        <>
          {mark && <MarkCell mark={mark} />}
          <span className="tiny held" title={flags.map((flag) => flag.replaceAll("_", " ")).join(", ")}>
            {flags.map((flag) => SHORT_FLAGS[flag] ?? flag).join(" ")}
          </span>
        </>
      ),
    },
    hasRuns === true && {
      ...{ label: "Run", sort: "run", className: styles.from },
      cell: ({ run }) => (
        <Link to="/runs/$name" params={{ name: run }}>
          {run}
        </Link>
      ),
    },
    {
      ...{ label: "Environment", sort: "env", className: `${styles.from} ${styles.roomy}`, titleOf: fromOf },
      cell: (sample) => fromOf(sample) || "–",
    },
    isGroup && {
      ...{
        label: "Scores",
        className: `${styles.scoreCell} mantine-visible-from-sm`,
        title: "One dot per sequence, on one scale for all rows",
      },
      titleOf: ({ sequences }) => (sequences === null ? undefined : counted(sequences, "sequence")),
      cell: ({ scores, score }) => scores.length > 0 && <ScoreDots scores={scores} {...scale} mean={score} />,
    },
    {
      ...(isGroup
        ? { label: "Score", sort: "score", title: "Mean over the sequences of the group" }
        : { label: "Return", sort: kind === "episode" ? "score" : undefined, title: "Sum of the rewards" }),
      isNumber: true,
      cell: ({ score }) => number(score),
    },
    samples.some(({ correct }) => correct !== null) && SOLVED,
    samples.some(({ advantages }) => advantages.length > 0) && ADVANTAGE,
    ...facts.map(factColumn),
    {
      ...{ label: isGroup ? "Tokens" : "Steps", sort: "length", className: styles.roomy, isNumber: true },
      title: isGroup ? "Tokens of the longest sequence" : "Env steps",
      cell: ({ length }) => (length === null ? "–" : count(length)),
    },
    {
      ...{
        label: "Version",
        sort: "version",
        className: "mantine-visible-from-sm",
        isNumber: true,
        title: "Version of the policy that acted",
      },
      cell: ({ policy_step }) => (policy_step === null ? "–" : policyStep(policy_step)),
    },
    kind === "episode"
      ? {
          ...{ label: "Worker", className: "mantine-visible-from-sm", titleOf: ({ worker }) => visible(worker) },
          cell: ({ worker }) => visible(shortId(worker)) || "–",
        }
      : {
          ...{ label: "State", sort: "state", className: `${styles.state} mantine-visible-from-sm` },
          cell: ({ state, why, step }) => <SampleState state={state} why={why} step={step} />,
        },
    {
      label: "Age",
      sort: kind === "episode" ? undefined : "arrived",
      className: "soft",
      isNumber: true,
      cell: ({ at }) => <Age at={at} />,
    },
  ];
  return columns.filter((column) => column !== false);
}

function Head({ column, sort, onSort }: { column: Column; sort: Sort | undefined; onSort: TableProps["onSort"] }) {
  const { label, sort: name, className, isNumber, title } = column;
  const now = sort ?? "-arrived";
  const isSorted = name !== undefined && now.replace(/^-/, "") === name;
  const isDescending = now.startsWith("-");
  if (!name || !onSort) {
    return (
      <th scope="col" className={className} data-num={isNumber || undefined} title={title}>
        {label}
      </th>
    );
  }
  return (
    <th
      scope="col"
      className={className}
      data-num={isNumber || undefined}
      title={title}
      aria-sort={isSorted ? (isDescending ? "descending" : "ascending") : undefined}
    >
      <button type="button" className={styles.sort} onClick={() => onSort(name)}>
        {label}
        {isSorted && (isDescending ? <ArrowDown size={12} aria-hidden="true" /> : <ArrowUp size={12} aria-hidden="true" />)}
      </button>
    </th>
  );
}

/** Samples, one per row of 34 px; all scores share one scale. */
export function SampleTable(props: TableProps) {
  const { samples, kind, hasRuns, list, sort, onSort, chosen = NONE, onChoose, isOnePrompt = false, onEnd, columns: facts } = props;
  const box = useRef<HTMLDivElement>(null);
  const isVirtual = samples.length > VIRTUAL_ROWS;
  const virtual = useVirtualizer({
    count: samples.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_PX,
    overscan: 20,
    enabled: isVirtual,
  });
  const items = virtual.getVirtualItems();
  const [first, last] = isVirtual ? [items[0]?.index ?? 0, items.at(-1)?.index ?? -1] : [0, samples.length - 1];
  const isAtEnd = isVirtual && last >= samples.length - 1;
  useEffect(() => {
    if (isAtEnd) onEnd?.();
  }, [isAtEnd, onEnd]);
  const ids = samples.map(({ id }) => id);
  const columns = useMemo(
    () => columnsOf({ samples, kind, hasRuns, isOnePrompt, list, columns: facts }),
    [samples, kind, hasRuns, isOnePrompt, list, facts],
  );
  const width = columns.length + (onChoose ? 1 : 0);
  return (
    <div ref={box} className={styles.scroll} data-virtual={isVirtual || undefined}>
      <table className={`${TABLE} ${styles.samples}`}>
        <VisuallyHidden component="caption">
          {{ group: "Trajectory groups", episode: "Episodes", fragment: "Fragments" }[kind]}
        </VisuallyHidden>
        <thead>
          <tr>
            {onChoose && (
              <th scope="col" className={styles.pick}>
                {isOnePrompt ? (
                  <VisuallyHidden>Selected</VisuallyHidden>
                ) : (
                  <Checkbox
                    size="xs"
                    aria-label="Select all shown groups"
                    checked={chosen.size > 0 && ids.every((id) => chosen.has(id))}
                    indeterminate={chosen.size > 0 && !ids.every((id) => chosen.has(id))}
                    onChange={(event) => onChoose(ids, event.currentTarget.checked)}
                  />
                )}
              </th>
            )}
            {columns.map((column) => (
              <Head key={`${column.sort} ${column.label}`} column={column} sort={sort} onSort={onSort} />
            ))}
          </tr>
        </thead>
        <tbody>
          {first > 0 && (
            <tr>
              <td colSpan={width} style={{ height: first * ROW_PX, padding: 0 }} />
            </tr>
          )}
          {samples.slice(first, last + 1).map((sample) => (
            <Boundary key={`${sample.run} ${sample.id}`} part="Row" data={sample} frame={(error) => <Row width={width}>{error}</Row>}>
              <Line sample={sample} columns={columns} isChosen={chosen.has(sample.id)} onChoose={onChoose} />
            </Boundary>
          ))}
          {isVirtual && last < samples.length - 1 && (
            <tr>
              <td colSpan={width} style={{ height: (samples.length - 1 - last) * ROW_PX, padding: 0 }} />
            </tr>
          )}
        </tbody>
      </table>
    </div>
  );
}
