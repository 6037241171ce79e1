/** Bring together what Ray says of its nodes and what workers say of where they are. Pure. */

import type { NodeWorkers, RayNode } from "@/api/deck";

export type Place = {
  host: string;
  /** Null: workers say that they are there, and Ray names no such node. */
  node: RayNode | null;
  runs: { run: string; workers: number }[];
};

/** Every machine: the head first, then nodes that live by name, then those only workers name, then those that are gone. */
export function placesOf(nodes: readonly RayNode[], placements: readonly NodeWorkers[]): Place[] {
  const on = (host: string) => placements.filter((each) => each.node === host).map(({ run, workers }) => ({ run, workers }));
  const known = new Set(nodes.filter(({ alive }) => alive).map(({ host }) => host));
  const ofRay = nodes.map((node): Place => ({ host: node.host, node, runs: node.alive ? on(node.host) : [] }));
  const others = [...new Set(placements.map(({ node }) => node))].filter((host) => !known.has(host));
  const rank = ({ node }: Place) => (node === null ? 2 : !node.alive ? 3 : node.is_head ? 0 : 1);
  return [...ofRay, ...others.map((host): Place => ({ host, node: null, runs: on(host) }))].sort(
    (one, other) => rank(one) - rank(other) || one.host.localeCompare(other.host),
  );
}
