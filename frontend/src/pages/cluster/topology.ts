/** Bring together what Ray says of its nodes and what workers say of where they are. Pure. */

import type { MachineCordon, NodeWorkers, RayNode } from "@/api/deck";

export type Place = {
  host: string;
  /** Null: workers say that they are there, and Ray names no such node. */
  node: RayNode | null;
  runs: { run: string; workers: number }[];
  cordon?: MachineCordon;
};

/**
 * Every machine: the head first, then nodes that live by name, then those only workers or cordons name,
 * then those that are gone.
 */
export function placesOf(nodes: readonly RayNode[], placements: readonly NodeWorkers[], cordons: readonly MachineCordon[] = []): Place[] {
  const alive = nodes.filter((node) => node.alive);
  // Workers of older code name their host alone; several nodes may share that.
  const isOn = (at: NodeWorkers, node: RayNode) => (at.node_id ? at.node_id === node.node : at.node === node.host);
  const whose = (found: readonly NodeWorkers[]) => found.map(({ run, workers }) => ({ run, workers }));
  const cordonOf = (id: string) => cordons.find(({ node }) => node === id);
  const ofRay = nodes.map(
    (node): Place => ({
      host: node.host,
      node,
      runs: node.alive ? whose(placements.filter((at) => isOn(at, node))) : [],
      cordon: cordonOf(node.node),
    }),
  );
  const elsewhere = placements.filter((at) => !alive.some((node) => isOn(at, node)));
  const others = [...new Set(elsewhere.map(({ node }) => node))].map(
    (host): Place => ({ host, node: null, runs: whose(elsewhere.filter(({ node }) => node === host)) }),
  );
  const ids = new Set(nodes.map(({ node }) => node));
  const forgotten = cordons
    .filter(({ node }) => !ids.has(node))
    .map((cordon): Place => ({ host: cordon.host, node: null, runs: [], cordon }));
  const rank = ({ node }: Place) => (node === null ? 2 : !node.alive ? 3 : node.is_head ? 0 : 1);
  return [...ofRay, ...others, ...forgotten].sort((one, other) => rank(one) - rank(other) || one.host.localeCompare(other.host));
}

/** How far a machine is with being emptied. */
export function emptied({ workers, managers }: Pick<MachineCordon, "workers" | "managers">): string {
  const one = workers === 1 ? "1 worker is still there" : `${workers} workers are still there`;
  const left = workers === 0 ? "none of our workers is there" : one;
  if (managers.length === 0) return left;
  const stay = managers.length === 1 ? `the manager of ${managers[0]} stays` : `the managers of ${managers.join(", ")} stay`;
  return `${left}; ${stay}`;
}
