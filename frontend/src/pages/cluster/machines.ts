/** Match Ray's nodes with the locations that workers and processes report. Pure. */

import type { Cluster, JobWorker, MachineCordon, NodeWorkers, ProcessRow, RayNode } from "@/api/deployment";
import { counted } from "@/format";

export type Process = { role: "web" | "jobs" | "scheduler"; row: ProcessRow | JobWorker };

export type Place = {
  host: string;
  /** Null if workers or processes report a machine that Ray does not list. */
  node: RayNode | null;
  runs: { run: string; workers: number }[];
  cordon?: MachineCordon;
  processes: Process[];
};

/** The fields of a cluster that the machines depend on. */
export type Located = Pick<Cluster, "placements" | "cordons" | "web" | "workers" | "schedulers"> & { ray: Pick<Cluster["ray"], "nodes"> };

/**
 * Every machine: the head first, then live nodes by name, then those named only by workers, processes or cordons,
 * then dead nodes. The processes of a host of several nodes are at the first of them.
 */
export function placesOf({ ray: { nodes }, placements, cordons, web, workers, schedulers }: Located): Place[] {
  const alive = nodes.filter((node) => node.alive);
  const processes: Process[] = [
    ...web.map((row): Process => ({ role: "web", row })),
    ...workers.map((row): Process => ({ role: "jobs", row })),
    ...schedulers.map((row): Process => ({ role: "scheduler", row })),
  ];
  const processesOn = (host: string) => processes.filter(({ row }) => row.host === host);
  // Older workers report only their host, which several nodes may share.
  const isOn = (at: NodeWorkers, node: RayNode) => (at.node_id ? at.node_id === node.node : at.node === node.host);
  const whose = (found: readonly NodeWorkers[]) => found.map(({ run, workers }) => ({ run, workers }));
  const ofRay = nodes.map((node): Place => {
    const isFirst = node.alive && alive.find(({ host }) => host === node.host) === node;
    return {
      host: node.host,
      node,
      runs: node.alive ? whose(placements.filter((at) => isOn(at, node))) : [],
      cordon: cordons.find((cordon) => cordon.node === node.node),
      processes: isFirst ? processesOn(node.host) : [],
    };
  });
  const elsewhere = placements.filter((at) => !alive.some((node) => isOn(at, node)));
  const hosts = processes.map(({ row }) => row.host).filter((host) => !alive.some((node) => node.host === host));
  const others = [...new Set([...elsewhere.map(({ node }) => node), ...hosts])].map(
    (host): Place => ({
      host,
      node: null,
      runs: whose(elsewhere.filter(({ node }) => node === host)),
      processes: hosts.includes(host) ? processesOn(host) : [],
    }),
  );
  const ids = new Set(nodes.map(({ node }) => node));
  const forgotten = cordons
    .filter(({ node }) => !ids.has(node))
    .map((cordon): Place => ({ host: cordon.host, node: null, runs: [], cordon, processes: [] }));
  const rank = ({ node }: Place) => (node === null ? 2 : !node.alive ? 3 : node.is_head ? 0 : 1);
  return [...ofRay, ...others, ...forgotten].sort((one, other) => rank(one) - rank(other) || one.host.localeCompare(other.host));
}

/** Progress of emptying a cordoned machine. */
export function emptied({ workers, managers }: Pick<MachineCordon, "workers" | "managers">): string {
  const left = workers === 0 ? "no workers remaining" : `${counted(workers, "worker")} remaining`;
  return managers.length === 0 ? left : `${left}; managers that stay: ${managers.join(", ")}`;
}
