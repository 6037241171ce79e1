/** Lay lessons out in layers, so that every requirement points from left to right. Pure. */

import type { LessonRow } from "@/api/types";

/** Lessons that are drawn side by side; the table has all of them. */
const MOST_DRAWN = 60;

export type GraphNode = { lesson: LessonRow; layer: number; row: number };
type GraphEdge = { from: GraphNode; to: GraphNode; isMet: boolean };
export type LessonGraph = { nodes: GraphNode[]; edges: GraphEdge[]; layers: number; rows: number };

/**
 * The lessons that are drawn: all of them, or the active ones and what stands next to them.
 *
 * @param lessons None before what it requires.
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
 * Where each lesson stands: one layer behind the last that it requires, beside what it requires.
 *
 * @param lessons None before what it requires; requirements that are not among them are left out.
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

/** Give the lessons of one layer rows, each as near to what it requires as there is room. */
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

/** A lesson, and the space between two, in units of the drawing: both are as high as wide. */
export const NODE = 100;
export const GAP = 40;

/**
 * The line of a requirement, from the right end of one lesson to the left end of another.
 *
 * One that passes layers runs between the rows, lest it seem to belong to what it passes.
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

/** Where an arrow key leads from a lesson; itself where there is nothing further. */
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
