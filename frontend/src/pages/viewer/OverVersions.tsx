import { useQuery } from "@tanstack/react-query";
import type { GroupSummary } from "@/api/groups";
import { ErrorState, Skeletons } from "@/components/panels";
import { counted, number } from "@/format";
import { byVersion, type Side } from "@/pages/viewer/sides";
import { TextDiff } from "@/pages/viewer/TextDiff";
import { SampleTable } from "@/samples/SampleTable";
import { promptQuery } from "@/samples/samples";

const MOST_GROUPS = 200;

type Props = {
  run: string;
  group: GroupSummary;
  left: Side;
  /** Absent until a second group is selected. */
  right: Side | undefined;
  onChange: (sides: { left: Side; right: Side | undefined }) => void;
};

/** The groups of a prompt by policy version, and the answers of two of them side by side. */
export function OverVersions({ run, group, left, right, onChange }: Props) {
  const asked = useQuery(promptQuery(run, group.prompt, MOST_GROUPS));
  if (group.prompt === "") {
    return (
      <p className="soft">
        Prompt unknown: the group is not indexed yet, or its content has no messages and no tokens before the first that is trained on.
      </p>
    );
  }
  if (asked.error && !asked.data) return <ErrorState title="Groups unavailable" error={asked.error} onRetry={() => asked.refetch()} />;
  if (!asked.data) return <Skeletons heights={[120, 160]} />;
  const groups = byVersion(asked.data.results);
  const versions = new Set(groups.map(({ epoch, policy_step }) => `${epoch}.${policy_step}`)).size;
  const sides = [left, ...(right ? [right] : [])];
  // The selection is in the order of versions: the older answer is on the left.
  const place = (side: Side) => groups.findIndex(({ id }) => Number(id) === side.group);
  const choose = ([chosenId = "0"]: string[], isOn: boolean) => {
    const id = Number(chosenId);
    const kept = sides.filter((side) => side.group !== id);
    const chosen = isOn ? [...kept.slice(-1), { group: id, sequence: 0 }] : kept;
    const [first = left, second] = chosen.sort((one, other) => place(one) - place(other));
    onChange({ left: first, right: second });
  };
  return (
    <section aria-label="This prompt over versions">
      <h3>This prompt over versions</h3>
      <p className="small soft">
        {counted(groups.length, "group")} of this prompt by {counted(versions, "policy version")}, oldest version first. First mean score{" "}
        {number(groups[0]?.score)}, last {number(groups.at(-1)?.score)}.
        {asked.data.next && ` Only the newest ${MOST_GROUPS} groups are listed.`}
      </p>
      <SampleTable
        samples={groups}
        kind="group"
        list={{ q: `prompt:${group.prompt}` }}
        chosen={new Set(sides.map((side) => String(side.group)))}
        onChoose={choose}
        isOnePrompt
      />
      {right ? (
        <TextDiff run={run} left={left} right={right} onChange={onChange} />
      ) : (
        <p className="small soft">Select a second group to compare the answers.</p>
      )}
    </section>
  );
}
