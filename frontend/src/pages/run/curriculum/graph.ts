/** Layered layout of the lessons, with all edges pointing right. Pure. */

import type { LessonRow } from "@/api/types";

/** Maximum number of lessons drawn; the table lists all. */
const MOST_DRAWN = 60;

export type GraphNode = { lesson: LessonRow; layer: number; row: number };
type GraphEdge = { from: GraphNode; to: GraphNode; isMet: boolean };
export type LessonGraph = { nodes: GraphNode[]; edges: GraphEdge[]; layers: number; rows: number };

/**
 * The lessons to draw: all of them, or the active ones and their neighbours.
 *
 * @param lessons In topological order.
 */
export function drawnOf(lessons: LessonRow[], atMost = MOST_DRAWN): LessonRow[] {
  if (lessons.length <= atMost) return lessons;
  const active = new Set(lessons.filter(({ status }) => status === "active").map(({ name }) => name));
  const near = new Set(lessons.filter(({ name }) => active.has(name)).flatMap(({ requires }) => requires.map(({ lesson }) => lesson)));
  const rank = ({ name, requires }: LessonRow): number => {
    if (active.has(name)) return 0;
    return near.has(name) || requires.some(({ lesson }) => active.has(lesson)) ? 1 : 2;
  };
  const chosen = new Set([...lessons].sort((a, b) => rank(a) - rank(b)).slice(0, atMost));
  return lessons.filter((lesson) => chosen.has(lesson));
}

/**
 * The position of each lesson: one layer after its last prerequisite, in a row near its prerequisites.
 *
 * @param lessons In topological order; prerequisites outside the list are ignored.
 */
export function graphOf(lessons: LessonRow[]): LessonGraph {
  const placed = new Map<string, GraphNode>();
  for (const lesson of lessons) {
    const before = required(lesson, placed);
    placed.set(lesson.name, { lesson, layer: Math.max(-1, ...before.map(({ layer }) => layer)) + 1, row: 0 });
  }
  const layers = Math.max(0, ...[...placed.values()].map(({ layer }) => layer + 1));
  for (let layer = 0; layer < layers; layer += 1) {
    spread(
      [...placed.values()].filter((node) => node.layer === layer),
      placed,
    );
  }
  const nodes = [...placed.values()].sort((a, b) => a.layer - b.layer || a.row - b.row);
  const edges = nodes.flatMap((to) =>
    required(to.lesson, placed).map((from) => ({ from, to, isMet: to.lesson.status !== "locked" || from.lesson.status === "graduated" })),
  );
  return { nodes, edges, layers, rows: Math.max(0, ...nodes.map(({ row }) => row + 1)) };
}

function required(lesson: LessonRow, placed: Map<string, GraphNode>): GraphNode[] {
  return lesson.requires.map((one) => placed.get(one.lesson)).filter((node) => node !== undefined);
}

/** Assign rows to the lessons of one layer, as close to their prerequisites as possible. */
function spread(layer: GraphNode[], placed: Map<string, GraphNode>): void {
  const wanted = new Map(layer.map((node, place) => [node, middle(required(node.lesson, placed)) ?? place]));
  const inOrder = [...layer].sort((a, b) => (wanted.get(a) ?? 0) - (wanted.get(b) ?? 0));
  let free = 0;
  for (const node of inOrder) {
    node.row = Math.max(free, Math.floor(wanted.get(node) ?? 0));
    free = node.row + 1;
  }
}

function middle(nodes: GraphNode[]): number | null {
  return nodes.length > 0 ? nodes.reduce((sum, { row }) => sum + row, 0) / nodes.length : null;
}

/** The size of a node and of the gaps, in drawing units; both are square. */
export const NODE = 100;
export const GAP = 40;

/**
 * The path of an edge, from the right of one node to the left of another.
 *
 * Edges that span several layers run between the rows, so that they do not touch other nodes.
 */
export function lineOf({ from, to }: GraphEdge): string {
  const x1 = from.layer * (NODE + GAP) + NODE;
  const x2 = to.layer * (NODE + GAP);
  const [y1, y2] = [from.row * NODE + NODE / 2, to.row * NODE + NODE / 2];
  if (to.layer === from.layer + 1) return `M ${x1} ${y1} ${curve(x1, y1, x2, y2)}`;
  const lane = (from.row + 1) * NODE;
  return `M ${x1} ${y1} ${curve(x1, y1, x1 + GAP, lane)} H ${x2 - GAP} ${curve(x2 - GAP, lane, x2, y2)}`;
}

function curve(x1: number, y1: number, x2: number, y2: number): string {
  const middle = (x1 + x2) / 2;
  return `C ${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`;
}

/** The lesson that an arrow key leads to; the lesson itself at the border. */
export function neighbourOf(graph: LessonGraph, name: string, key: string): string {
  const names = graph.nodes.map(({ lesson }) => lesson.name);
  const at = names.indexOf(name);
  const along = {
    ArrowRight: graph.edges.find(({ from }) => from.lesson.name === name)?.to,
    ArrowLeft: graph.edges.find(({ to }) => to.lesson.name === name)?.from,
  }[key];
  if (along) return along.lesson.name;
  const by = { ArrowDown: 1, ArrowUp: -1 }[key] ?? 0;
  return names[at + by] ?? name;
}
