import { NativeSelect, SegmentedControl } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import type { RunDetail } from "@/api/types";
import { ErrorState } from "@/components/ErrorState";
import { Panel } from "@/components/Panel";
import { Skeletons } from "@/components/Skeletons";
import { Table } from "@/components/Table";
import { number, visible } from "@/format";
import { type EpisodeSpread, episodeSpreadQuery } from "@/pages/run/episodes/api";
import { Histogram } from "@/pages/run/episodes/Histogram";
import { barsOf, samplesBetween } from "@/pages/run/episodes/ranges";
import type { EpisodesSearch } from "@/pages/run/episodes/search";
import { wordsOf } from "@/runs/words";
import { isOver } from "@/theme/chips";

const route = getRouteApi("/shell/runs/$name/episodes");
const keyOf = ({ mode, task }: EpisodeSpread["tasks"][number]) => `${mode} ${task}`;

function nameOf(run: RunDetail, spread: Pick<EpisodeSpread, "unit" | "of">): string {
  if (spread.unit === "groups") return spread.of === "return" ? "Mean score per group" : "Tokens of the longest sequence per group";
  return spread.of === "return" ? "Return per episode" : `Episode length in ${wordsOf(run.kind).length}`;
}

/** A link to the list of the items in the selected range. */
function Brushed({ run, spread, search }: { run: RunDetail; spread: EpisodeSpread; search: EpisodesSearch }) {
  const { least, most } = search;
  if (least === undefined && most === undefined)
    return <p className="faint small">Drag across the bars, or enter both ends, to list the items in a range.</p>;
  const task = search.task?.replace(/^\w+ /, "");
  return (
    <p>
      <Link
        to="/runs/$name/trajectories"
        params={{ name: run.name }}
        search={samplesBetween(spread, least, most, run.kind === "outside" ? undefined : task)}
        className="strong"
      >
        Show {spread.unit} from {number(least ?? spread.least)} to {number(most ?? spread.most)}
      </Link>
    </p>
  );
}

/** One row per environment or lesson; a click filters the chart. */
function Tasks({
  spread,
  chosen,
  onChoose,
}: {
  spread: EpisodeSpread;
  chosen: string | undefined;
  onChoose: (key: string | undefined) => void;
}) {
  if (spread.tasks.length === 0) return null;
  return (
    <Table
      label="By environment"
      columns={[
        { label: spread.unit === "groups" ? "Lesson or environment" : "Environment" },
        { label: "Count", className: "num" },
        { label: "Mean", className: "num" },
        { label: "p10", className: "num" },
        { label: "Median", className: "num" },
        { label: "p90", className: "num" },
      ]}
    >
      {spread.tasks.map((task) => (
        <tr key={keyOf(task)} data-selected={chosen === keyOf(task) || undefined}>
          <td className="anywhere">
            <button
              type="button"
              className="link-button"
              aria-pressed={chosen === keyOf(task)}
              onClick={() => onChoose(chosen === keyOf(task) ? undefined : keyOf(task))}
            >
              {visible(task.task || "no environment")}
            </button>
            {task.mode === "eval" && <span className="faint small"> evaluation</span>}
          </td>
          <td className="num">{number(task.counted)}</td>
          <td className="num">{number(task.mean)}</td>
          <td className="num">{number(task.p10)}</td>
          <td className="num">{number(task.p50)}</td>
          <td className="num">{number(task.p90)}</td>
        </tr>
      ))}
    </Table>
  );
}

/** Distribution of returns or lengths over the life of the run, with a selectable range. */
export function SpreadPanel({ run }: { run: RunDetail }) {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const { of = "return", task, least, most } = search;
  const look = (changes: Partial<EpisodesSearch>) =>
    void navigate({ search: (old) => ({ ...old, ...changes }), replace: true, resetScroll: false });
  const [mode, name] = task ? [task.split(" ", 1)[0] as "train" | "eval", task.replace(/^\w+ /, "")] : [undefined, undefined];
  const { data, error } = useQuery(episodeSpreadQuery(run.name, { of, mode, task: name }, !isOver(run.status)));
  const note = data && `${data.is_sampled ? "a sample of " : ""}${number(data.counted)} ${data.unit}`;
  return (
    <Panel
      title="Distribution"
      note={note}
      className="span-12"
      aside={
        <>
          {data && data.tasks.length > 1 && (
            <NativeSelect
              size="xs"
              aria-label="Filter by environment"
              value={task ?? ""}
              data={[
                { value: "", label: "all" },
                ...data.tasks.map((each) => ({
                  value: keyOf(each),
                  label: `${visible(each.task || "no environment")}${each.mode === "eval" ? ", evaluation" : ""}`,
                })),
              ]}
              onChange={(event) => look({ task: event.currentTarget.value || undefined, least: undefined, most: undefined })}
            />
          )}
          <SegmentedControl
            size="xs"
            aria-label="Measure"
            data={[
              { value: "return", label: "Return" },
              { value: "length", label: "Length" },
            ]}
            value={of}
            onChange={(value) => look({ of: value === "length" ? "length" : undefined, least: undefined, most: undefined })}
          />
        </>
      }
    >
      {error && <ErrorState title="Distribution unavailable" error={error} />}
      {!data && !error && <Skeletons heights={[180]} />}
      {data && data.counted === 0 && <p className="faint small">No finished episodes yet.</p>}
      {data && data.counted > 0 && (
        <>
          <Histogram
            label={nameOf(run, data)}
            bins={barsOf(data)}
            least={least}
            most={most}
            onChange={(low, high) => look({ least: low, most: high })}
          />
          <Brushed run={run} spread={data} search={search} />
          <Tasks spread={data} chosen={task} onChoose={(key) => look({ task: key, least: undefined, most: undefined })} />
        </>
      )}
    </Panel>
  );
}
