import { Box, Group, SegmentedControl, SimpleGrid } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { api, body } from "@/api/client";
import type { components } from "@/api/schema";
import type { RunDetail } from "@/api/types";
import { valueAt } from "@/charts/scale";
import { type Column, DataTable } from "@/components/DataTable";
import { term } from "@/components/filter/suggest";
import { ErrorState, Skeletons, TextButton } from "@/components/panels";
import { inUnit, number, visible } from "@/format";
import css from "@/pages/run/trajectories/distribution.module.css";
import { type Range, rangeIn, taskIn, withRange, withTask } from "@/pages/run/trajectories/ranges";
import { wordsOf } from "@/runs/words";
import type { Measure, SampleSearch } from "@/samples/search";
import { isOver } from "@/theme/chips";

type Spread = components["schemas"]["EpisodeSpread"];
type Task = Spread["tasks"][number];

const REFRESH_MS = 30_000;

type Props = { run: RunDetail; of: Measure; search: SampleSearch; onSearch: (next: SampleSearch) => void };

/** Returns or lengths over the life of the run; a bar and an environment are filters of the list. */
export function Distribution({ run, of, search, onSearch }: Props) {
  const { q = "" } = search;
  const params = { path: { run: run.name } };
  const refetchInterval = isOver(run.status) ? (false as const) : REFRESH_MS;
  const task = taskIn(q);
  const query = { of, ...(task && { task, mode: "train" as const }) };
  const { data, error } = useQuery({
    queryKey: ["episode-spread", run.name, query],
    queryFn: () => body(api.GET("/api/v1/runs/{run}/episodes/distribution", { params: { ...params, query } })),
    placeholderData: (shown) => shown,
    refetchInterval,
  });
  const name = of === "return" ? "score" : "length";
  const filter = (next: string) => onSearch({ ...search, kind: data?.unit === "episodes" ? "episode" : search.kind, q: next || undefined });
  if (error && !data) return <ErrorState title="Distribution unavailable" error={error} />;
  if (!data) return <Skeletons heights={[180]} />;
  return (
    <Box component="section" px="sm" pb="sm" aria-label="Distribution">
      <Group gap="sm" mb="xs">
        <SegmentedControl
          size="xs"
          aria-label="Measure"
          data={[
            { value: "return", label: data.unit === "groups" ? "Mean score" : "Return" },
            { value: "length", label: `Length in ${data.unit === "groups" ? "tokens" : wordsOf(run.kind).length}` },
          ]}
          value={of}
          onChange={(value) => onSearch({ ...search, spread: value as Measure })}
        />
        <span className="faint tiny">
          {data.is_sampled && "a sample of "}
          {inUnit(data.counted, data.unit)}
        </span>
      </Group>
      {data.counted === 0 ? (
        <p className="faint small">No finished episodes yet.</p>
      ) : (
        <SimpleGrid cols={{ base: 1, xl: 2 }} spacing="md">
          <Bars spread={data} range={rangeIn(q, name)} onRange={(range) => filter(withRange(q, name, range))} />
          <DataTable
            label="By environment"
            rows={data.tasks}
            columns={columnsOf(task, (chosen) => filter(withTask(q, chosen)))}
            className={css.tasks}
            keyOf={(each) => `${each.mode} ${each.task}`}
            attributes={(each) => ({ "data-task": each.mode, "data-selected": (each.mode === "train" && each.task === task) || undefined })}
          />
        </SimpleGrid>
      )}
    </Box>
  );
}

type BarsProps = { spread: Spread; range: Range | undefined; onRange: (range: Range | undefined) => void };

/** A click filters by the range of a bar, and no longer with a second one; Shift extends the range. */
function Bars({ spread: { counts, least, most, unit }, range, onRange }: BarsProps) {
  if (least === null || most === null || least === most) return null;
  const highest = Math.max(1, ...counts);
  // Bounds in the address have six digits.
  const edge = (bar: number) => Number(valueAt(bar / counts.length, least, most).toPrecision(6));
  const choose = (from: number, to: number, isExtended: boolean) => {
    if (range && isExtended) onRange({ least: Math.min(range.least, from), most: Math.max(range.most, to) });
    else onRange(range?.least === from && range.most === to ? undefined : { least: from, most: to });
  };
  return (
    <div>
      <div className={css.bars} role="group" aria-label="Bars; Shift and a click extend the range">
        {counts.map((count, bar) => {
          const [from, to] = [edge(bar), edge(bar + 1)];
          const words = `${number(from)} to ${number(to)}: ${inUnit(count, unit)}`;
          return (
            <button
              key={from}
              type="button"
              title={words}
              aria-label={words}
              aria-pressed={range !== undefined && range.least <= from && range.most >= to}
              onClick={(event) => choose(from, to, event.shiftKey)}
            >
              <span style={{ height: `${count === 0 ? 0 : Math.max(6, (100 * count) / highest)}%` }} />
            </button>
          );
        })}
      </div>
      <Group justify="space-between" className="tiny faint">
        <span>{number(least)}</span>
        <span>{number(most)}</span>
      </Group>
    </div>
  );
}

const figure = (label: string, value: (task: Task) => number): Column<Task> => ({ label, value, isNumber: true });

function columnsOf(chosen: string | undefined, onTask: (task: string | undefined) => void): Column<Task>[] {
  return [
    {
      id: "task",
      label: "Environment",
      value: ({ task }) => task,
      cell: ({ task, mode }) => (
        <>
          {mode === "eval" || !task ? (
            visible(task || "no environment")
          ) : (
            <TextButton aria-pressed={task === chosen} title={term("env", task)} onClick={() => onTask(task === chosen ? undefined : task)}>
              {visible(task)}
            </TextButton>
          )}
          {mode === "eval" && <span className="faint small"> evaluation</span>}
        </>
      ),
    },
    figure("Count", ({ counted }) => counted),
    figure("Mean", ({ mean }) => mean),
    figure("p10", ({ p10 }) => p10),
    figure("Median", ({ p50 }) => p50),
    figure("p90", ({ p90 }) => p90),
  ];
}
