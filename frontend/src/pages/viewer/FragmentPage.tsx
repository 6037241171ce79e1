import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { ChevronLeft, ChevronRight } from "lucide-react";
import { type FragmentContent, type FragmentDetail, fragmentQuery } from "@/api/fragments";
import { Chart } from "@/charts/Chart";
import { ErrorState } from "@/components/ErrorState";
import { KeyHint } from "@/components/KeyHint";
import { Panel } from "@/components/Panel";
import { Panels } from "@/components/Panels";
import { Skeletons } from "@/components/Skeletons";
import { Table } from "@/components/Table";
import { bytes, number, visible } from "@/format";
import { FragmentFacts } from "@/pages/viewer/FragmentFacts";
import { endBeside } from "@/pages/viewer/fragment";
import own from "@/pages/viewer/fragment.module.css";
import { Steps } from "@/pages/viewer/Steps";
import { ViewerLayout } from "@/pages/viewer/ViewerLayout";
import { SampleState } from "@/samples/SampleTable";
import { useShortcuts } from "@/shell/keyboard";

const ROUTE = "/shell/runs/$name/fragments/$fragment";
const CHART_HEIGHT = 130;
/** Ids of episodes that can be searched: a slot, a slash and a number. */
const ID = /^.+\/[0-9]{1,18}$/;

/** One fragment of a fleet run: source, return, and every step. */
export function FragmentPage() {
  const { name, fragment } = useParams({ from: ROUTE });
  const { data, error, refetch } = useQuery(fragmentQuery(name, Number(fragment)));
  if (error && !data) return <ErrorState title="Fragment unavailable" error={error} onRetry={() => void refetch()} />;
  if (!data) return <Skeletons heights={[130, 190, 420]} />;
  return <Viewer key={fragment} run={name} detail={data} />;
}

function Viewer({ run, detail }: { run: string; detail: FragmentDetail }) {
  const { step, episode } = useSearch({ from: ROUTE });
  const navigate = useNavigate({ from: "/runs/$name/fragments/$fragment" });
  const { fragment, content, before, after } = detail;
  const choose = (chosen: number | null) => {
    if (chosen !== null) void navigate({ search: { step: chosen, episode }, replace: true });
  };
  const open = (other: number | null) => {
    if (other !== null) void navigate({ params: { name: run, fragment: String(other) }, search: { episode } });
  };
  const end = (direction: 1 | -1) => endBeside(content?.episodes ?? [], step ?? -1, direction);
  const back = () => void navigate({ to: "/runs/$name/trajectories", params: { name: run } });
  useShortcuts({ "[": () => open(before), "]": () => open(after), n: () => choose(end(1)), p: () => choose(end(-1)), Escape: back });
  return (
    <ViewerLayout
      run={run}
      label={`Fragment ${fragment.id}`}
      title={
        <>
          {visible(fragment.slot)} · {number(fragment.number)}
        </>
      }
      chips={<SampleState state={fragment.state} why={fragment.drop_reason.replaceAll("_", " ")} step={fragment.step} />}
      actions={
        <Button.Group>
          <Button
            size="compact-sm"
            variant="default"
            disabled={before === null}
            onClick={() => open(before)}
            leftSection={<ChevronLeft size={14} />}
            rightSection={<KeyHint>[</KeyHint>}
          >
            Previous in slot
          </Button>
          <Button
            size="compact-sm"
            variant="default"
            disabled={after === null}
            onClick={() => open(after)}
            leftSection={<ChevronRight size={14} />}
            rightSection={<KeyHint>]</KeyHint>}
          >
            Next
          </Button>
        </Button.Group>
      }
      aside={<FragmentFacts run={run} detail={detail} />}
    >
      {!content && <ErrorState title="Content unavailable" error={detail.problem} />}
      {content && (
        <>
          <Panels>
            <Rewards content={content} onStep={choose} />
            <Episodes run={run} content={content} marked={episode} onStep={choose} />
          </Panels>
          <Panel
            title="Steps"
            note={`${number(content.steps)}${step === undefined ? "" : `, at ${number(step)}`}`}
            aside={
              <Button.Group>
                <Button
                  size="compact-sm"
                  variant="default"
                  disabled={end(-1) === null}
                  onClick={() => choose(end(-1))}
                  rightSection={<KeyHint>p</KeyHint>}
                >
                  Previous end
                </Button>
                <Button
                  size="compact-sm"
                  variant="default"
                  disabled={end(1) === null}
                  onClick={() => choose(end(1))}
                  rightSection={<KeyHint>n</KeyHint>}
                >
                  Next end
                </Button>
              </Button.Group>
            }
          >
            <Steps
              run={run}
              label="Steps of the fragment"
              parts={[{ fragment: fragment.id, first: 0, steps: content.steps }]}
              chosen={step}
              onChoose={choose}
            />
          </Panel>
          <Arrays content={content} />
        </>
      )}
    </ViewerLayout>
  );
}

type PartProps = { content: FragmentContent; onStep: (step: number) => void };

function Rewards({ content, onStep }: PartProps) {
  const { step, last, low, high, is_exact } = content.rewards;
  return (
    <Panel title="Rewards" note={is_exact ? "every step" : "min to max per bucket"} className="span-8">
      <Chart
        name="Reward by step"
        x={step}
        isTime={false}
        xLabel="step"
        lines={[{ label: "reward", values: last, role: 1 }]}
        band={is_exact ? undefined : { low, high, label: "min – max" }}
        height={CHART_HEIGHT}
        onPick={(index) => onStep(step[index] ?? 0)}
        empty="No rewards."
      />
    </Panel>
  );
}

/** `marked` is the id of the searched episode. */
function Episodes({ run, content, marked, onStep }: PartProps & { run: string; marked: string | undefined }) {
  return (
    <Panel title="Episodes" note="the part within this fragment" className="span-4">
      <ul className={own.episodes} aria-label="Episodes">
        {content.episodes.map(({ id, first, steps, reward, begins, outcome }, place) => (
          <li key={`${first} ${id}`} aria-current={id === marked || undefined}>
            <button type="button" className={own.jump} onClick={() => onStep(first)}>
              <span className="unseen">Go to the steps </span>
              {first} – {first + steps - 1}
              <span className="unseen"> of episode {place}</span>
            </button>
            <span className="anywhere" title={visible(id)}>
              {begins ? "begins" : "continues"}
              {outcome ? `, ${outcome}` : ""}
            </span>
            <span className={own.num}>
              {number(reward)}{" "}
              {ID.test(id) && (
                <Link to="/runs/$name/transcript" params={{ name: run }} search={{ episode: id }} title="All stored steps of the episode">
                  Transcript
                </Link>
              )}
            </span>
          </li>
        ))}
      </ul>
      {content.episodes_left_out > 0 && <p className="faint small">{number(content.episodes_left_out)} more.</p>}
    </Panel>
  );
}

function Arrays({ content }: { content: FragmentContent }) {
  return (
    <details className={`panel ${own.arrays}`}>
      <summary>Arrays as received</summary>
      <Table label="Arrays of the fragment" columns={["Name", "Type", "Shape", { label: "Size", className: "num" }]}>
        {content.arrays.map(({ name, dtype, shape, size_bytes }) => (
          <tr key={name}>
            <td className="mono anywhere">{visible(name)}</td>
            <td className="mono">{dtype}</td>
            <td className="mono">{shape.join(" × ") || "scalar"}</td>
            <td className="num">{bytes(size_bytes)}</td>
          </tr>
        ))}
      </Table>
    </details>
  );
}
