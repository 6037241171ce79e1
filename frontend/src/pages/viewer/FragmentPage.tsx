import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { ChevronLeft, ChevronRight } from "lucide-react";
import { type FragmentContent, type FragmentDetail, fragmentQuery } from "@/api/fragments";
import { ErrorState } from "@/components/ErrorState";
import { term } from "@/components/filter/suggest";
import { KeyHint } from "@/components/KeyHint";
import { Skeletons } from "@/components/Skeletons";
import { Table } from "@/components/Table";
import { bytes, number, visible } from "@/format";
import { versionsText } from "@/pages/viewer/fragment";
import own from "@/pages/viewer/fragment.module.css";
import { Fact } from "@/pages/viewer/Provenance";
import { StepFacts } from "@/pages/viewer/StepFacts";
import { type ListedPart, StepsReader } from "@/pages/viewer/StepsReader";
import { ViewerLayout } from "@/pages/viewer/ViewerLayout";
import { SampleState } from "@/samples/SampleTable";
import { useShortcuts } from "@/shell/keyboard";

const ROUTE = "/shell/runs/$name/fragments/$fragment";
/** Ids of episodes that can be searched: a slot, a slash and a number. */
const ID = /^.+\/[0-9]{1,18}$/;

/** One fragment of a fleet run: source, return, and every step. */
export function FragmentPage() {
  const { name, fragment } = useParams({ from: ROUTE });
  const { data, error, refetch } = useQuery(fragmentQuery(name, Number(fragment)));
  if (error && !data) return <ErrorState title="Fragment unavailable" error={error} onRetry={() => void refetch()} />;
  if (!data) return <Skeletons heights={[40, 420]} />;
  return <Viewer key={fragment} run={name} detail={data} />;
}

function Viewer({ run, detail }: { run: string; detail: FragmentDetail }) {
  const { step, episode } = useSearch({ from: ROUTE });
  const navigate = useNavigate({ from: "/runs/$name/fragments/$fragment" });
  const { fragment, content, before, after } = detail;
  const open = (other: number | null) => {
    if (other !== null) void navigate({ params: { name: run, fragment: String(other) }, search: { episode } });
  };
  const back = () => void navigate({ to: "/runs/$name/trajectories", params: { name: run } });
  useShortcuts({ "[": () => open(before), "]": () => open(after), Escape: back });
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
      aside={<Facts run={run} detail={detail} />}
    >
      {!content && <ErrorState title="Content unavailable" error={detail.problem} />}
      {content && (
        <>
          <StepsReader
            run={run}
            label="Steps of the fragment"
            curves={content.curves}
            parts={[{ fragment: fragment.id, first: 0, steps: content.steps }]}
            list={{
              ...{ title: "Episodes", note: "the part within this fragment", leftOut: content.episodes_left_out },
              parts: content.episodes.map((part) => listed(run, part, part.id === episode)),
            }}
            chosen={step}
            onChoose={(chosen) => void navigate({ search: { step: chosen, episode }, replace: true })}
          />
          <Arrays content={content} />
        </>
      )}
    </ViewerLayout>
  );
}

const listed = (run: string, part: FragmentContent["episodes"][number], isCurrent: boolean): ListedPart => ({
  ...{ id: `${part.first} ${part.id}`, first: part.first, steps: part.steps, reward: part.reward, isCurrent },
  ends: part.outcome !== "",
  about: `${part.begins ? "begins" : "continues"}${part.outcome ? `, ${part.outcome}` : ""}`,
  title: visible(part.id),
  link: ID.test(part.id) && (
    <Link to="/runs/$name/transcript" params={{ name: run }} search={{ episode: part.id }} title="All stored steps of the episode">
      Transcript
    </Link>
  ),
});

/** The source and use of the fragment, with links. */
function Facts({ run, detail }: { run: string; detail: FragmentDetail }) {
  const { fragment, content, version } = detail;
  const params = { name: run };
  const padding = content ? content.steps - content.real_steps : 0;
  const versions = `${fragment.epoch}.${versionsText(fragment)}`;
  return (
    <StepFacts
      run={run}
      environment={fragment.environment}
      slot={fragment.slot}
      worker={fragment.worker}
      weights={
        version === null ? (
          versions
        ) : (
          <Link to="/runs/$name/weights" params={params} search={{ version }}>
            version {versions}
          </Link>
        )
      }
      received_at={fragment.received_at}
    >
      <Fact name="Return">
        <b data-return>{number(fragment.reward_sum)}</b>
      </Fact>
      <Fact name="Steps">
        {number(fragment.steps)}
        {padding > 0 && <span className="faint"> and {number(padding)} of padding</span>}
        <span className="faint">, {bytes(fragment.size_bytes)}</span>
      </Fact>
      {fragment.batch && (
        <Fact name="Batch">
          <Link to="/runs/$name/queue" params={params} search={{ batch: fragment.batch }}>
            train step {number(fragment.step)}
          </Link>
          <span className="faint"> · </span>
          <Link to="/runs/$name/trajectories" params={params} search={{ q: term("batch", fragment.batch) }}>
            its fragments
          </Link>
        </Fact>
      )}
      {fragment.uses > 0 && <Fact name="Sampled into">{number(fragment.uses)} batches</Fact>}
      <Fact name="Contiguous">{fragment.contiguous ? "yes" : "no"}</Fact>
    </StepFacts>
  );
}

function Arrays({ content }: { content: FragmentContent }) {
  return (
    <details className={`panel ${own.fold}`}>
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
