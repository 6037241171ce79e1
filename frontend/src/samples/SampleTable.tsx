import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { Chip, ChipAge } from "@/components/chips";
import { type Column as AnyColumn, DataTable } from "@/components/DataTable";
import { Age } from "@/components/inline";
import { count, number, policyStep, shortId, visible } from "@/format";
import { MarkCell } from "@/marks/MarkBar";
import type { Sample } from "@/samples/samples";
import styles from "@/samples/samples.module.css";
import type { Fact, SampleKind, Sort } from "@/samples/search";

const ROW_PX = 34;

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

type StateProps = { state: string; step: number | null; why?: string; drop_reason?: string };

/** The state of a group or fragment, with the cause of its drop or the ordinal of the batch that holds it. */
export function SampleState({ state, drop_reason = "", why = drop_reason.replaceAll("_", " "), step }: StateProps) {
  const [tone, sign] = LOOKS[state] ?? ["quiet", "·"];
  const more = why || (step === null ? "" : `batch ${number(step)}`);
  return (
    <Chip tone={tone} sign={sign} title={more || undefined}>
      {state}
      {more && <ChipAge>{more}</ChipAge>}
    </Chip>
  );
}

type Props = {
  samples: Sample[];
  kind: SampleKind;
  /** Whether the rows are of several runs. */
  hasRuns?: boolean;
  /** Parameters of the list, kept by links to its samples. */
  list?: { q?: string; sort?: Sort; columns?: string };
  /** Metadata and overrides as further columns. */
  columns?: Fact[];
  /** Absent in lists of a fixed order. */
  onSort?: (order: string) => void;
  chosen?: ReadonlySet<string>;
  /** Absent if rows cannot be selected. */
  onChoose?: (ids: string[], isOn: boolean) => void;
  /** All groups have the same prompt: rows begin with their answers, and are selected one by one. */
  isOnePrompt?: boolean;
  /** Called when the last rows are drawn. */
  onEnd?: () => void;
};

type Column = AnyColumn<Sample>;

function nameOf({ kind, id, slot, number: place }: Sample): string {
  if (kind === "fragment") return `${shortId(slot)} · ${number(place)}`;
  if (kind === "group") return `Group ${id}`;
  const at = id.lastIndexOf("/");
  return `Episode ${id.slice(at + 1)} of ${shortId(id.slice(0, at))}`;
}

/** Link to the reader of a sample: the texts of a group, the name of another. */
export function SampleTitle({ sample, list, isOnePrompt }: Pick<Props, "list" | "isOnePrompt"> & { sample: Sample }) {
  const { kind, id, run, excerpt, answer, slot } = sample;
  const params = { name: run };
  const title = visible(kind === "group" ? (isOnePrompt && answer) || excerpt : kind === "episode" ? id : slot);
  const look = { title, "data-open": true };
  if (kind === "episode") {
    return (
      <Link to="/runs/$name/transcript" params={params} search={{ episode: id }} {...look}>
        {visible(nameOf(sample))}
      </Link>
    );
  }
  if (kind === "fragment") {
    return (
      <Link to="/runs/$name/fragments/$fragment" params={{ ...params, fragment: id }} {...look}>
        {visible(nameOf(sample))}
      </Link>
    );
  }
  return (
    <>
      <Link to="/runs/$name/groups/$group" params={{ ...params, group: id }} search={list ?? {}} {...look}>
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

/** The least and the greatest of the values of a group's sequences. */
const rangeColumn = (label: string, title: string, of: (sample: Sample) => (number | null)[]): Column => ({
  label,
  title,
  isNumber: true,
  className: "mantine-visible-from-sm",
  cell: (sample) => {
    const known = of(sample).filter((one) => one !== null);
    if (known.length === 0) return "–";
    const [least, most] = [Math.min(...known), Math.max(...known)];
    return (
      <span title={known.map((one) => number(one)).join(", ")}>
        {least === most ? number(least) : `${number(least)} … ${number(most)}`}
      </span>
    );
  },
});

/** A column of metadata or an override. */
const factColumn = (fact: Fact): Column => ({
  id: fact,
  label: visible(fact.slice(fact.indexOf(".") + 1)),
  sort: fact,
  className: styles.fact,
  title: visible(fact.startsWith("meta.") ? `Metadata ${fact.slice(5)}` : `Override ${fact.slice(9)}`),
  cell: ({ columns }) => {
    const value = columns[fact];
    const text = visible(Array.isArray(value) ? value.join(", ") : String(value ?? "–"));
    return <span title={text}>{typeof value === "number" ? number(value) : text}</span>;
  },
});

const titled = (text: string) => <span title={text}>{text || "–"}</span>;

type ColumnProps = Pick<Props, "kind" | "hasRuns" | "isOnePrompt" | "list" | "columns"> & { hasCorrect: boolean; hasAdvantages: boolean };

function columnsOf({ kind, hasRuns, isOnePrompt, list, columns = [], hasCorrect, hasAdvantages }: ColumnProps): Column[] {
  const isGroup = kind === "group";
  const found: (Column | false)[] = [
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
      label: "Run",
      sort: "run",
      className: styles.from,
      cell: ({ run }) => (
        <Link to="/runs/$name" params={{ name: run }}>
          {run}
        </Link>
      ),
    },
    !isOnePrompt && {
      label: "Environment",
      sort: "env",
      className: `${styles.from} ${styles.roomy}`,
      cell: ({ lesson, environment }) => titled(visible(lesson || environment)),
    },
    {
      ...(isGroup
        ? { label: "Score", sort: "score", title: "Mean over the sequences of the group" }
        : { label: "Return", sort: kind === "episode" ? "score" : undefined, title: "Sum of the rewards" }),
      isNumber: true,
      cell: ({ score }) => number(score),
    },
    isGroup && !isOnePrompt && rangeColumn("Range", "Least and greatest score of its sequences", ({ scores }) => scores),
    hasCorrect && {
      label: "Solved",
      sort: "solved",
      isNumber: true,
      className: "mantine-visible-from-sm",
      title: "Correct sequences of the group, by the environment",
      cell: ({ correct, sequences }) => (correct === null ? "–" : `${number(correct)}/${number(sequences)}`),
    },
    hasAdvantages && rangeColumn("Advantage", "Least and greatest mean advantage of its sequences", ({ advantages }) => advantages),
    ...columns.map(factColumn),
    {
      label: isGroup ? "Tokens" : "Steps",
      sort: "length",
      className: styles.roomy,
      isNumber: true,
      title: isGroup ? "Tokens of the longest sequence" : "Env steps",
      cell: ({ length }) => (length === null ? "–" : count(length)),
    },
    {
      label: "Version",
      sort: "version",
      className: "mantine-visible-from-sm",
      isNumber: true,
      title: "Version of the policy that acted",
      cell: ({ policy_step }) => (policy_step === null ? "–" : policyStep(policy_step)),
    },
    kind === "episode"
      ? {
          label: "Worker",
          className: "mantine-visible-from-sm",
          cell: ({ worker }) => <span title={visible(worker)}>{visible(shortId(worker)) || "–"}</span>,
        }
      : { label: "State", sort: "state", className: `${styles.state} mantine-visible-from-sm`, cell: SampleState },
    {
      label: "Age",
      sort: kind === "episode" ? undefined : "arrived",
      isNumber: true,
      className: "soft",
      cell: ({ at }) => <Age at={at} />,
    },
  ];
  return found.filter((column) => column !== false);
}

const TITLES: Record<SampleKind, string> = { group: "Trajectory groups", episode: "Episodes", fragment: "Fragments" };
const NONE: ReadonlySet<string> = new Set();
const idOf = ({ id }: Sample) => id;
const idInRun = ({ run, id }: Sample) => `${run} ${id}`;
const labelOf = ({ id }: Sample) => `Select group ${id}`;
const attributesOf = ({ id, kind }: Sample) => ({
  "data-opens": true,
  "data-row": true,
  "data-sample": id,
  ...(kind === "group" && { "data-group": id }),
});

/** Samples, one per row of 34 px. */
export function SampleTable({ samples, kind, hasRuns, isOnePrompt, list, columns, chosen = NONE, onChoose, onSort, onEnd }: Props) {
  const hasCorrect = samples.some(({ correct }) => correct !== null);
  const hasAdvantages = samples.some(({ advantages }) => advantages.length > 0);
  const shown = useMemo(
    () => columnsOf({ kind, hasRuns, isOnePrompt, list, columns, hasCorrect, hasAdvantages }),
    [kind, hasRuns, isOnePrompt, list, columns, hasCorrect, hasAdvantages],
  );
  return (
    <DataTable
      label={TITLES[kind]}
      className={styles.samples}
      rows={samples}
      columns={shown}
      keyOf={hasRuns ? idInRun : idOf}
      attributes={attributesOf}
      order={list?.sort ?? "-arrived"}
      onOrder={onSort}
      selection={onChoose && { chosen, labelOf, onChoose, all: isOnePrompt ? undefined : "Select all shown groups" }}
      rowHeight={ROW_PX}
      onEnd={onEnd}
    />
  );
}
