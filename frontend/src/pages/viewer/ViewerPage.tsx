import { Button, Tabs } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { ChevronDown, ChevronUp, Download, Trash2 } from "lucide-react";
import { useState } from "react";
import {
  contentQuery,
  contentUrl,
  type GroupDetail,
  type GroupSummary,
  groupQuery,
  type SequenceList,
  type SequenceSummary,
  sequencesQuery,
} from "@/api/groups";
import { useMayOperate } from "@/api/session";
import { Chip } from "@/components/chips";
import { KeyHint } from "@/components/inline";
import { EmptyState, ErrorState, Skeletons } from "@/components/panels";
import { bytes, count, number, visible } from "@/format";
import { DiscardDialog } from "@/marks/DiscardDialog";
import { MarkBar } from "@/marks/MarkBar";
import { nextChannel } from "@/pages/viewer/channels";
import { GroupFacts } from "@/pages/viewer/Facts";
import { Messages } from "@/pages/viewer/Messages";
import { OverVersions } from "@/pages/viewer/OverVersions";
import { firstShown, VIEW_LABELS, VIEWS, type View, type ViewerSearch } from "@/pages/viewer/search";
import { extremesOf, type Side, sideOf, sideText } from "@/pages/viewer/sides";
import { TextDiff } from "@/pages/viewer/TextDiff";
import { Tokens } from "@/pages/viewer/Tokens";
import { ViewerLayout } from "@/pages/viewer/ViewerLayout";
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
  const total = sequences?.results.length ?? group.sequences;
  const shown = Math.min(search.seq ?? firstShown(search.sort, sequences?.results ?? []), Math.max(0, total - 1));
  const view = search.view ?? (sequences?.has_messages === false ? "tokens" : "messages");
  const channel = search.color ?? "mask";
  const change = (changed: Partial<ViewerSearch>) => void navigate({ search: (before) => ({ ...before, ...changed }), replace: true });
  const open = (other: string | undefined) => {
    if (other === undefined) return;
    void navigate({ params: { name, group: other }, search: ({ token: _, left: __, right: ___, ...kept }) => kept });
  };
  const extremes = extremesOf(group.id, sequences?.results ?? []);
  const left = sideOf(search.left);
  const right = sideOf(search.right);
  const compare = (sides: { left: Side; right: Side | undefined }) =>
    change({ left: sideText(sides.left), right: sides.right && sideText(sides.right) });
  const turn = (by: number) => change({ seq: (shown + by + total) % total, token: undefined });
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
    <Tabs value={view} onChange={(each) => change({ view: each as View })}>
      <ViewerLayout
        run={name}
        label={`Group ${group.id}`}
        title={`Group ${group.id}`}
        list={sampleSearch(search)}
        chips={
          <>
            <SampleState state={group.state} why={group.drop_reason.replaceAll("_", " ")} step={group.step} />
            {group.flags.map((flag) => (
              <Chip key={flag} tone="held" sign="⚑">
                {flag.replaceAll("_", " ")}
              </Chip>
            ))}
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
            <Tabs.List className={styles.views} aria-label="Views">
              {VIEWS.map((each) => (
                <Tabs.Tab key={each} value={each}>
                  {VIEW_LABELS[each]}
                </Tabs.Tab>
              ))}
            </Tabs.List>
          </>
        }
        aside={
          <>
            <MarkBar key={group.id} run={name} group={group.id} mark={group.mark} />
            <GroupFacts run={name} detail={detail} />
          </>
        }
      >
        {isDiscarding && <DiscardDialog run={name} groups={[group.id]} onClose={() => setDiscarding(false)} />}
        <Tabs.Panel value={view} bg="var(--panel)" bd="1px solid var(--line)" bdrs="md" className={styles.view}>
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
            <TextDiff run={name} left={left ?? extremes.left} right={right ?? extremes.right} onChange={compare} />
          )}
          {view === "versions" && group.has_bytes && (
            <OverVersions run={name} group={group} left={left ?? { group: group.id, sequence: shown }} right={right} onChange={compare} />
          )}
          {sequences && view === "raw" && <Raw run={name} group={group.id} list={sequences} sizeBytes={group.size_bytes} />}
        </Tabs.Panel>
      </ViewerLayout>
    </Tabs>
  );
}

type StripProps = { sequences: SequenceSummary[]; shown: number; onShow: (index: number) => void };

function signed(value: number): string {
  return `${value > 0 ? "+" : ""}${number(value).replace("-", "\u2212")}`;
}

/** The sequences of a group, to select one. */
function SequenceStrip({ sequences, shown, onShow }: StripProps) {
  return (
    <div className={styles.strip} role="group" aria-label="Sequences">
      {sequences.map((sequence, index) => (
        <button key={sequence.index} type="button" aria-pressed={index === shown} onClick={() => onShow(index)}>
          <span className={styles.stripTop}>
            <span className="faint">Sequence {sequence.index}</span>
            <span title="Score">
              <span className="faint">score</span> <b>{number(sequence.score)}</b>
            </span>
          </span>
          <span className={styles.stripLow}>
            {count(sequence.tokens)} tokens
            {sequence.advantage !== null && <span title="Mean advantage"> · advantage {signed(sequence.advantage)}</span>}
            {sequence.zero_advantage && (
              <span className="held" title="The environment sets its advantage to 0">
                {" "}
                · advantage set to 0
              </span>
            )}
            {sequence.temperature !== null && (
              <span title="Temperature of its sampling"> · temperature {number(sequence.temperature)}</span>
            )}
            {sequence.is_truncated && <span className="held"> · truncated</span>}
            {sequence.is_correct !== null && (
              <span>
                {" "}
                · <span aria-hidden="true">{sequence.is_correct ? "✓" : "✗"}</span> {sequence.is_correct ? "correct" : "incorrect"}
              </span>
            )}
            {sequence.duplicate_of !== null && (
              <span className="held" title="It has the same tokens">
                {" "}
                · same as sequence {sequence.duplicate_of}
              </span>
            )}
          </span>
        </button>
      ))}
    </div>
  );
}

const FIRST = 20_000;
const MOST = 1 << 19;

type RawProps = { run: string; group: number; list: SequenceList; sizeBytes: number };

/** The group as JSON as sent to a trainer, and its other fields. */
function Raw({ run, group, list, sizeBytes }: RawProps) {
  const [characters, setCharacters] = useState(FIRST);
  const content = useQuery({ ...contentQuery(run, group, characters), placeholderData: (before) => before });
  const isCut = content.data !== undefined && content.data.length >= characters;
  return (
    <>
      {list.fields.length > 0 && (
        <dl className={styles.fields}>
          {list.fields.map((field) => (
            <div key={field.name}>
              <dt className="mono">{visible(field.name)}</dt>
              <dd>
                <pre className={styles.raw}>
                  {visible(field.text)}
                  {field.characters > field.text.length ? " …" : ""}
                </pre>
              </dd>
            </div>
          ))}
        </dl>
      )}
      {content.isError && <ErrorState title="Content unavailable" error={content.error} />}
      {content.isPending && <Skeletons heights={[240]} />}
      {content.data !== undefined && (
        <pre className={styles.raw} tabIndex={0} role="group" aria-label="Content as JSON">
          {visible(content.data)}
        </pre>
      )}
      <div className={styles.rawFoot}>
        {isCut && characters < MOST && (
          <Button
            size="compact-sm"
            variant="default"
            loading={content.isFetching}
            onClick={() => setCharacters(Math.min(MOST, characters * 4))}
          >
            Show more
          </Button>
        )}
        {isCut && characters >= MOST && <span className="faint tiny">The first {number(MOST)} characters.</span>}
        <a href={contentUrl(run, group)} download>
          Download all
        </a>
        <span className="faint tiny">{bytes(sizeBytes)} as received</span>
      </div>
    </>
  );
}
