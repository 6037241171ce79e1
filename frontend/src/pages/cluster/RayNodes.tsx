import type { RayNode } from "@/api/deck";
import { bytes, number, visible } from "@/format";
import { Bar } from "@/pages/cluster/Bar";
import css from "./cluster.module.css";

/** What each node of the Ray cluster has, and what actors have reserved of it. */
export function RayNodes({ nodes }: { nodes: RayNode[] }) {
  if (nodes.length === 0) return null;
  return (
    <div className="table-scroll">
      <table className="table" aria-label="Nodes">
        <thead>
          <tr>
            <th scope="col">Node</th>
            <th scope="col">CPUs reserved</th>
            <th scope="col">GPUs reserved</th>
            <th scope="col">Memory reserved</th>
          </tr>
        </thead>
        <tbody>
          {nodes.map((node) => (
            <tr key={node.node} data-node={node.node}>
              <td className={css.process}>
                <b>{visible(node.host) || "a node"}</b> {node.is_head && <span className="tag">head</span>}
                {!node.alive && <span className="chip tone-bad"><span className="chip-sign" aria-hidden="true">✕</span>gone</span>}
                <div className="faint tiny mono">{node.node.slice(0, 12)}</div>
              </td>
              <td><Bar label={`CPUs of ${node.host}`} used={node.cpus_used} total={node.cpus} text={`${number(node.cpus_used)} of ${number(node.cpus)}`} warnAt={2} /></td>
              <td><Bar label={`GPUs of ${node.host}`} used={node.gpus_used} total={node.gpus} text={node.gpus ? `${number(node.gpus_used)} of ${number(node.gpus)}` : "none"} warnAt={2} /></td>
              <td><Bar label={`Memory of ${node.host}`} used={node.memory_used_bytes} total={node.memory_bytes} text={`${bytes(node.memory_used_bytes)} of ${bytes(node.memory_bytes)}`} warnAt={2} /></td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
