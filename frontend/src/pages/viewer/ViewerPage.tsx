import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { ChevronDown, ChevronUp, Download, Trash2 } from "lucide-react";
import { useState } from "react";
import { contentUrl, type GroupDetail, type GroupSummary, groupQuery, type SequenceList, sequencesQuery } from "@/api/groups";
import { useMayOperate } from "@/api/session";
import { EmptyState } from "@/components/EmptyState";
import { ErrorState } from "@/components/ErrorState";
import { KeyHint } from "@/components/KeyHint";
import { Skeletons } from "@/components/Skeletons";
import { visible } from "@/format";
import { DiscardDialog } from "@/marks/DiscardDialog";
import { MarkBar } from "@/marks/MarkBar";
import { nextChannel } from "@/pages/viewer/channels";
import { Flags } from "@/pages/viewer/Flags";
import { firstShown } from "@/pages/viewer/firstShown";
import { GroupDiff } from "@/pages/viewer/GroupDiff";
import { Messages } from "@/pages/viewer/Messages";
import { OverVersions } from "@/pages/viewer/OverVersions";
import { Provenance } from "@/pages/viewer/Provenance";
import { Raw } from "@/pages/viewer/Raw";
import { SequenceStrip } from "@/pages/viewer/SequenceStrip";
import { VIEW_LABELS, VIEWS, type ViewerSearch } from "@/pages/viewer/search";
import { extremesOf, type Side, sideOf, sideText } from "@/pages/viewer/sides";
import { Tokens } from "@/pages/viewer/Tokens";
import { ViewerLayout, Views } from "@/pages/viewer/ViewerLayout";
import styles from "@/pages/viewer/viewer.module.css";
import { SampleState } from "@/samples/SampleTable";
import { neighbourQuery } from "@/samples/samples";
import { sampleSearch } from "@/samples/search";
import { useShortcuts } from "@/shell/keyboard";

const ROUTE = "/shell/runs/$name/groups/$group";

/** The previous and next group of the originating list. */
function useNeighbours(run: string, group: GroupSummary, search: ViewerSearch) {
  const list = sampleSearch(search);
  const after = useQuery(neighbourQuery(run, list, group.id, false));
  const before = useQuery(neighbourQuery(run, list, group.id, true));
  return { after: after.data?.results[0]?.id, before: before.data?.results[0]?.id };
}

export function ViewerPage() {
  const { name, group } = useParams({ from: ROUTE });
  const id = Number(group);
  const detail = useQuery(groupQuery(name, id));
  const sequences = useQuery({ ...sequencesQuery(name, id), enabled: detail.data?.group.has_bytes === true });
  if (detail.isError && !detail.data) return <ErrorState title="Group unavailable" error={detail.error} />;
  if (!detail.data) return <Skeletons heights={[120, 64, 420]} />;
  return <Viewer name={name} detail={detail.data} sequences={sequences.data} error={sequences.error} />;
}

type Props = { name: string; detail: GroupDetail; sequences: SequenceList | undefined; error: unknown };

function Viewer({ name, detail, sequences, error }: Props) {
  const { group } = detail;
  const search = useSearch({ from: ROUTE });
  const navigate = useNavigate({ from: "/runs/$name/groups/$group" });
  const neighbours = useNeighbours(name, group, search);
  const mayOperate = useMayOperate();
  const [isDiscarding, setDiscarding] = useState(false);
  const count = sequences?.results.length ?? group.sequences;
  const shown = Math.min(search.seq ?? firstShown(search.sort, sequences?.results ?? []), Math.max(0, count - 1));
  const view = search.view ?? (sequences?.has_messages === false ? "tokens" : "messages");
  const channel = search.color ?? "mask";
  const change = (changed: Partial<ViewerSearch>) => void navigate({ search: (before) => ({ ...before, ...changed }), replace: true });
  const open = (other: string | undefined) => {
    if (other === undefined) return;
    void navigate({ params: { name, group: other }, search: ({ token: _, first: __, left: ___, right: ____, ...kept }) => kept });
  };
  const extremes = extremesOf(group.id, sequences?.results ?? []);
  const left = sideOf(search.left);
  const right = sideOf(search.right);
  const compare = (sides: { left: Side; right: Side | undefined }) =>
    change({ left: sideText(sides.left), right: sides.right && sideText(sides.right) });
  const turn = (by: number) => change({ seq: (shown + by + count) % count, token: undefined });
  useShortcuts({
    j: () => open(neighbours.after),
    k: () => open(neighbours.before),
    "[": () => turn(-1),
    "]": () => turn(1),
    c: () => change({ color: nextChannel(channel) }),
    Escape: () => void navigate({ to: "/runs/$name/trajectories", params: { name }, search: sampleSearch(search) }),
    x: () => window.location.assign(contentUrl(name, group.id)),
  });
  return (
    <ViewerLayout
      run={name}
      label={`Group ${group.id}`}
      title={`Group ${group.id}`}
      list={sampleSearch(search)}
      chips={
        <>
          <SampleState state={group.state} why={group.drop_reason.replaceAll("_", " ")} step={group.step} />
          <Flags flags={group.flags} />
        </>
      }
      actions={
        <>
          <Button.Group>
            <Button
              size="compact-sm"
              variant="default"
              disabled={neighbours.before === undefined}
              onClick={() => open(neighbours.before)}
              leftSection={<ChevronUp size={14} />}
              rightSection={<KeyHint>k</KeyHint>}
            >
              Previous
            </Button>
            <Button
              size="compact-sm"
              variant="default"
              disabled={neighbours.after === undefined}
              onClick={() => open(neighbours.after)}
              leftSection={<ChevronDown size={14} />}
              rightSection={<KeyHint>j</KeyHint>}
            >
              Next
            </Button>
          </Button.Group>
          <Button
            component="a"
            href={contentUrl(name, group.id)}
            download
            size="compact-sm"
            variant="default"
            disabled={!group.has_bytes}
            aria-disabled={!group.has_bytes || undefined}
            leftSection={<Download size={14} />}
            rightSection={<KeyHint>x</KeyHint>}
          >
            Export
          </Button>
          {mayOperate && (group.state === "queued" || group.state === "waiting") && (
            <Button
              size="compact-sm"
              variant="default"
              title="Removes it from the queue permanently, so that it is never trained on."
              leftSection={<Trash2 size={14} />}
              onClick={() => setDiscarding(true)}
            >
              Discard…
            </Button>
          )}
        </>
      }
      bar={
        <>
          {sequences && <SequenceStrip sequences={sequences.results} shown={shown} onShow={(seq) => change({ seq, token: undefined })} />}
          <Views views={VIEWS} labels={VIEW_LABELS} shown={view} onShow={(each) => change({ view: each })} />
        </>
      }
      aside={
        <>
          <MarkBar key={group.id} run={name} group={group.id} mark={group.mark} />
          <Provenance run={name} detail={detail} />
        </>
      }
    >
      {isDiscarding && <DiscardDialog run={name} groups={[group.id]} onClose={() => setDiscarding(false)} />}
      <div role="tabpanel" id="view" aria-labelledby={`view-${view}`} className={`panel ${styles.view}`}>
        <p className={styles.outcome}>{visible(detail.outcome)}</p>
        {!group.has_bytes && (
          <EmptyState
            title="Content not stored"
            action={
              <Link to="/runs/$name/trajectories" params={{ name }}>
                Samples of the run
              </Link>
            }
          >
            Only the metadata of groups that are dropped on arrival is stored.
          </EmptyState>
        )}
        {error !== null && error !== undefined && <ErrorState title="Content unavailable" error={error} />}
        {group.has_bytes && !sequences && !error && <Skeletons heights={[320]} />}
        {sequences && view === "messages" && <Messages key={shown} run={name} group={group.id} sequence={shown} list={sequences} />}
        {sequences && view === "tokens" && sequences.results[shown] && (
          <Tokens
            key={shown}
            run={name}
            group={group.id}
            sequence={sequences.results[shown]}
            channel={channel}
            token={search.token}
            onChannel={(color) => change({ color })}
            onToken={(token) => change({ token })}
          />
        )}
        {sequences && view === "diff" && (
          <GroupDiff
            run={name}
            group={group.id}
            list={sequences}
            channel={channel}
            onChannel={(color) => change({ color })}
            onOpen={(seq, token) => change({ view: "tokens", seq, token })}
            look={search}
            onLook={change}
            sides={{ left: left ?? extremes.left, right: right ?? extremes.right }}
            onSides={compare}
          />
        )}
        {view === "versions" && group.has_bytes && (
          <OverVersions run={name} group={group} left={left ?? { group: group.id, sequence: shown }} right={right} onChange={compare} />
        )}
        {sequences && view === "raw" && <Raw run={name} group={group.id} list={sequences} sizeBytes={group.size_bytes} />}
      </div>
    </ViewerLayout>
  );
}
