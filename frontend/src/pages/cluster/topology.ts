/** Match Ray's nodes with the locations that workers report. Pure. */

import type { MachineCordon, NodeWorkers, RayNode } from "@/api/deployment";
import { counted } from "@/format";

export type Place = {
  host: string;
  /** Null if workers report a node that Ray does not list. */
  node: RayNode | null;
  runs: { run: string; workers: number }[];
  cordon?: MachineCordon;
};

/**
 * Every machine: the head first, then live nodes by name, then those named only by workers or cordons,
 * then dead nodes.
 */
export function placesOf(nodes: readonly RayNode[], placements: readonly NodeWorkers[], cordons: readonly MachineCordon[] = []): Place[] {
  const alive = nodes.filter((node) => node.alive);
  // Older workers report only their host, which several nodes may share.
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

/** Progress of emptying a cordoned machine. */
export function emptied({ workers, managers }: Pick<MachineCordon, "workers" | "managers">): string {
  const one = `${counted(workers, "worker")} remaining`;
  const left = workers === 0 ? "no workers remaining" : one;
  if (managers.length === 0) return left;
  const stay = managers.length === 1 ? `the manager of ${managers[0]} stays` : `the managers of ${managers.join(", ")} stay`;
  return `${left}; ${stay}`;
}
