import { type CSSProperties, type KeyboardEvent, useMemo, useRef, useState } from "react";
import type { LessonRow } from "@/api/types";
import { Panel } from "@/components/Panel";
import { count, number, percent, visible } from "@/format";
import { barOf } from "@/pages/run/curriculum/curriculum";
import { drawnOf, GAP, type GraphNode, graphOf, type LessonGraph as Layout, lineOf, NODE, neighbourOf } from "@/pages/run/curriculum/graph";
import css from "@/pages/run/curriculum/graph.module.css";
import { isSteered, manualText } from "@/pages/run/curriculum/steering";
import { lookOf } from "@/theme/chips";

/** Screen reader text for a node's bar and edges. */
function wordsOf({ evaluation, stop_success, requires, reason }: LessonRow): string {
  const success = evaluation?.figures?.success;
  const evaluated = success ? `evaluation success, goal ${number(stop_success)}` : "not evaluated yet";
  const after = requires.length > 0 ? `after ${requires.map(({ lesson }) => lesson).join(" and ")}` : "no prerequisites";
  return `${evaluated}, ${after}. ${visible(reason)}`;
}

function Bar({ lesson }: { lesson: LessonRow }) {
  const success = lesson.evaluation?.figures?.success;
  return (
    <span className={`interval ${css.bar}`} aria-hidden="true">
      {success && (
        <>
          <span className="interval-range" style={{ left: barOf(success).left, width: barOf(success).width }} />
          <span className="interval-at" style={{ left: barOf(success).at }} />
        </>
      )}
      <span className="interval-goal" style={{ left: barOf({ estimate: lesson.stop_success, low: 0, high: 0 }).at }} />
    </span>
  );
}

type NodeProps = { node: GraphNode; isHome: boolean; onFocus: () => void; onOpen: () => void };

function Lesson({ node: { lesson, layer, row }, isHome, onFocus, onOpen }: NodeProps) {
  const { tone, sign } = lookOf(lesson.status);
  const success = lesson.evaluation?.figures?.success;
  return (
    <li className={css.place} style={{ "--column": 2 * layer + 1, "--row": row + 1 } as CSSProperties}>
      <button
        type="button"
        className={`${css.node} tone-${tone}`}
        data-node={lesson.name}
        data-status={lesson.status}
        title={visible(lesson.reason)}
        tabIndex={isHome ? 0 : -1}
        onFocus={onFocus}
        onMouseEnter={onFocus}
        onClick={onOpen}
      >
        <span className={css.name}>{lesson.name}</span>
        <span className={`${css.facts} small`}>
          <span className={css.status}>
            <span aria-hidden="true">{sign}</span> {lesson.status}
          </span>
          <span className="num">{success ? percent(success.estimate) : "–"}</span>
        </span>
        <span className={`${css.facts} small soft`}>
          <span className="num">{lesson.status === "locked" ? "not sampled" : `${percent(lesson.probability)} of tasks`}</span>
          {isSteered(lesson) && (
            <span className="by-hand-mark" title={manualText(lesson)}>
              manual
            </span>
          )}
        </span>
        <span className="unseen"> {wordsOf(lesson)}</span>
        <Bar lesson={lesson} />
        <span className={`${css.after} small soft`}>
          {lesson.requires.length > 0 ? `after ${lesson.requires.map((one) => one.lesson).join(", ")}` : "no prerequisites"}
        </span>
      </button>
    </li>
  );
}

function Lines({ layout, near }: { layout: Layout; near: string | null }) {
  const width = layout.layers * (NODE + GAP) - GAP;
  const isNear = ({ lesson }: GraphNode): boolean => lesson.name === near;
  return (
    <svg className={css.lines} viewBox={`0 0 ${width} ${layout.rows * NODE}`} preserveAspectRatio="none" aria-hidden="true">
      {layout.edges.map((edge) => (
        <path
          key={`${edge.from.lesson.name} ${edge.to.lesson.name}`}
          d={lineOf(edge)}
          className={css.line}
          data-met={edge.isMet || undefined}
          data-near={isNear(edge.from) || isNear(edge.to) || undefined}
        />
      ))}
    </svg>
  );
}

function Drawing({ lessons, onOpen }: { lessons: LessonRow[]; onOpen: (name: string) => void }) {
  const layout = useMemo(() => graphOf(lessons), [lessons]);
  const [near, setNear] = useState<string | null>(null);
  const place = useRef<HTMLOListElement>(null);
  const home = layout.nodes.find(({ lesson }) => lesson.name === near) ?? layout.nodes[0];
  const move = (event: KeyboardEvent) => {
    const from = home?.lesson.name ?? "";
    const to = neighbourOf(layout, from, event.key);
    if (to === from) return;
    event.preventDefault();
    place.current?.querySelector<HTMLElement>(`[data-node="${CSS.escape(to)}"]`)?.focus();
  };
  return (
    <div className={css.scroll}>
      <ol
        ref={place}
        className={layout.edges.length > 0 ? css.layers : css.flat}
        aria-label="Lessons; arrow keys follow prerequisites"
        style={{ "--layers": layout.layers, "--rows": layout.rows } as CSSProperties}
        onKeyDown={move}
      >
        {layout.edges.length > 0 && <Lines layout={layout} near={near} />}
        {layout.nodes.map((node) => (
          <Lesson
            key={node.lesson.name}
            node={node}
            isHome={node === home}
            onFocus={() => setNear(node.lesson.name)}
            onOpen={() => onOpen(node.lesson.name)}
          />
        ))}
      </ol>
    </div>
  );
}

type Props = { lessons: LessonRow[]; onOpen: (name: string) => void };

/** The lessons as a graph of prerequisites, with the state of each. */
export function LessonGraph({ lessons, onOpen }: Props) {
  const drawn = useMemo(() => drawnOf(lessons), [lessons]);
  const some =
    drawn.length < lessons.length ? `${count(drawn.length)} of ${count(lessons.length)} lessons: active ones and their neighbours; ` : "";
  const isFlat = lessons.every(({ requires }) => requires.length === 0);
  return (
    <Panel
      title="Lesson graph"
      note={`${some}${isFlat ? "no lesson has prerequisites" : "prerequisites on the left; dashed: not yet met"}; bars: evaluation success and goal`}
      className="span-12"
    >
      <Drawing lessons={drawn} onOpen={onOpen} />
    </Panel>
  );
}
