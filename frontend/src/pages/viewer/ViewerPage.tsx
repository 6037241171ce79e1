import { Button, Tabs, UnstyledButton } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { Download, Trash2 } from "lucide-react";
import { useState } from "react";
import { contentUrl, type GroupDetail, groupQuery, type SequenceList, type SequenceSummary, sequencesQuery } from "@/api/groups";
import { useMayOperate } from "@/api/session";
import { Chip } from "@/components/chips";
import { KeyHint } from "@/components/inline";
import { ErrorState, Skeletons } from "@/components/panels";
import { count, number, unitFor, visible } from "@/format";
import { DiscardDialog } from "@/marks/DiscardDialog";
import { MarkBar } from "@/marks/MarkBar";
import { isInQueue } from "@/marks/marks";
import { nextChannel } from "@/pages/viewer/channels";
import { GroupFacts } from "@/pages/viewer/Facts";
import { Messages } from "@/pages/viewer/Messages";
import { OverVersions } from "@/pages/viewer/OverVersions";
import { firstShown, VIEW_LABELS, VIEWS, type View, type ViewerSearch } from "@/pages/viewer/search";
import { extremesOf, type Side, sideOf, sideText } from "@/pages/viewer/sides";
import { TextDiff } from "@/pages/viewer/TextDiff";
import { Tokens } from "@/pages/viewer/Tokens";
import { Neighbours, ViewerLayout } from "@/pages/viewer/ViewerLayout";
import styles from "@/pages/viewer/viewer.module.css";
import { SampleState } from "@/samples/SampleTable";
import { neighbourQuery } from "@/samples/samples";
import { sampleSearch } from "@/samples/search";
import { useShortcuts } from "@/shell/keyboard";

const ROUTE = "/shell/runs/$name/groups/$group";

export function ViewerPage() {
  const { name, group } = useParams({ from: ROUTE });
  const id = Number(group);
  const detail = useQuery(groupQuery(name, id));
  const sequences = useQuery({ ...sequencesQuery(name, id), enabled: detail.data?.group.has_bytes === true });
  if (detail.isError && !detail.data) return <ErrorState title="Group unavailable" error={detail.error} />;
  if (!detail.data) return <Skeletons heights={[120, 64, 420]} />;
  return <Viewer name={name} detail={detail.data} sequences={sequences.data} error={sequences.error} />;
}

type Props = { name: string; detail: GroupDetail; sequences: SequenceList | undefined; error: Error | null };

function Viewer({ name, detail, sequences, error }: Props) {
  const { group } = detail;
  const search = useSearch({ from: ROUTE });
  const navigate = useNavigate({ from: "/runs/$name/groups/$group" });
  const list = sampleSearch(search);
  const after = useQuery(neighbourQuery(name, list, group.id, false)).data?.results[0]?.id;
  const before = useQuery(neighbourQuery(name, list, group.id, true)).data?.results[0]?.id;
  const mayOperate = useMayOperate();
  const [isDiscarding, setDiscarding] = useState(false);
  const rows = sequences?.results ?? [];
  const total = sequences?.results.length ?? group.sequences;
  const shown = Math.min(search.seq ?? firstShown(search.sort, rows), Math.max(0, total - 1));
  const sequence = rows[shown];
  const view = search.view ?? (sequences?.has_messages === false ? "tokens" : "messages");
  const channel = search.color ?? "mask";
  const change = (changed: Partial<ViewerSearch>) => void navigate({ search: (before) => ({ ...before, ...changed }), replace: true });
  const opening = (other: string | undefined) => {
    if (other === undefined) return undefined;
    return () => void navigate({ params: { name, group: other }, search: ({ token: _, left: __, right: ___, ...kept }) => kept });
  };
  const extremes = extremesOf(group.id, rows);
  const left = sideOf(search.left);
  const right = sideOf(search.right);
  const compare = (sides: { left: Side; right: Side | undefined }) =>
    change({ left: sideText(sides.left), right: sides.right && sideText(sides.right) });
  const turn = (by: number) => change({ seq: (shown + by + total) % total, token: undefined });
  useShortcuts({
    "[": () => turn(-1),
    "]": () => turn(1),
    c: () => change({ color: nextChannel(channel) }),
    Escape: () => void navigate({ to: "/runs/$name/trajectories", params: { name }, search: list }),
    x: () => group.has_bytes && window.location.assign(contentUrl(name, group.id)),
  });
  return (
    <Tabs value={view} onChange={(each) => change({ view: each as View })}>
      <ViewerLayout
        run={name}
        label={`Group ${group.id}`}
        title={`Group ${group.id}`}
        list={list}
        chips={
          <>
            <SampleState {...group} />
            {group.flags.map((flag) => (
              <Chip key={flag} tone="held" sign="⚑">
                {flag.replaceAll("_", " ")}
              </Chip>
            ))}
          </>
        }
        actions={
          <>
            <Neighbours
              ways={[
                ["Previous", "k", opening(before)],
                ["Next", "j", opening(after)],
              ]}
            />
            {group.has_bytes && (
              <Button
                component="a"
                href={contentUrl(name, group.id)}
                download
                size="compact-sm"
                variant="default"
                leftSection={<Download size={14} />}
                rightSection={<KeyHint>x</KeyHint>}
              >
                Export
              </Button>
            )}
            {mayOperate && isInQueue(group) && (
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
            {sequences && <SequenceStrip sequences={rows} shown={shown} onShow={(seq) => change({ seq, token: undefined })} />}
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
          <p className="small soft anywhere">{visible(detail.outcome)}</p>
          {!group.has_bytes && <p>Content not stored: only the metadata of groups that are dropped on arrival is stored.</p>}
          {error && <ErrorState title="Content unavailable" error={error} />}
          {group.has_bytes && !sequences && !error && <Skeletons heights={[320]} />}
          {sequences && view === "messages" && <Messages key={shown} run={name} group={group.id} sequence={shown} list={sequences} />}
          {sequence && view === "tokens" && (
            <Tokens
              key={shown}
              run={name}
              group={group.id}
              sequence={sequence}
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
        </Tabs.Panel>
      </ViewerLayout>
    </Tabs>
  );
}

const signed = (value: number) => `${value > 0 ? "+" : ""}${number(value).replace("-", "\u2212")}`;

/** The facts of a sequence as one line. */
const wordsOf = ({ tokens, advantage, zero_advantage, temperature, is_truncated, is_correct, duplicate_of }: SequenceSummary) =>
  [
    `${count(tokens)} ${unitFor(tokens, "tokens")}`,
    advantage !== null && `advantage ${signed(advantage)}`,
    zero_advantage && "advantage set to 0",
    temperature !== null && `temperature ${number(temperature)}`,
    is_truncated && "truncated",
    is_correct !== null && (is_correct ? "✓ correct" : "✗ incorrect"),
    duplicate_of !== null && `same as sequence ${duplicate_of}`,
  ]
    .filter(Boolean)
    .join(" · ");

type StripProps = { sequences: SequenceSummary[]; shown: number; onShow: (index: number) => void };

/** The sequences of a group, to select one. */
const SequenceStrip = ({ sequences, shown, onShow }: StripProps) => (
  <div className={styles.strip} role="group" aria-label="Sequences">
    {sequences.map((sequence, index) => (
      <UnstyledButton key={sequence.index} aria-pressed={index === shown} onClick={() => onShow(index)}>
        <div>
          <span className="faint">Sequence {sequence.index}</span>
          <span>
            <span className="faint">score</span> <b>{number(sequence.score)}</b>
          </span>
        </div>
        <span className="tiny soft">{wordsOf(sequence)}</span>
      </UnstyledButton>
    ))}
  </div>
);
