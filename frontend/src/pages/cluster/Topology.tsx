import { Link } from "@tanstack/react-router";
import type { MachineCordon, NodeWorkers, RayNode } from "@/api/deployment";
import { Chip } from "@/components/Chip";
import { bytes, counted, number, visible } from "@/format";
import { Bar } from "@/pages/cluster/Bar";
import { CordonMachine } from "@/pages/cluster/CordonMachine";
import { type Place, placesOf } from "@/pages/cluster/topology";
import css from "./cluster.module.css";

function Room({ node }: { node: RayNode }) {
  const rows: [label: string, used: number, total: number, text: string][] = [
    ["CPUs", node.cpus_used, node.cpus, `${number(node.cpus_used)} of ${number(node.cpus)} CPUs`],
    ["GPUs", node.gpus_used, node.gpus, `${number(node.gpus_used)} of ${number(node.gpus)} GPUs`],
    ["Memory", node.memory_used_bytes, node.memory_bytes, `${bytes(node.memory_used_bytes)} of ${bytes(node.memory_bytes)}`],
    [
      "Object store",
      node.object_store_used_bytes ?? 0,
      node.object_store_bytes ?? 0,
      `${bytes(node.object_store_used_bytes)} of ${bytes(node.object_store_bytes)} objects`,
    ],
  ];
  return (
    <>
      {rows
        .filter(([, , total]) => total > 0)
        .map(([label, used, total, text]) => (
          <Bar key={label} label={`${label} reserved on ${node.host}`} used={used} total={total} text={text} warnAt={2} />
        ))}
    </>
  );
}

function Tile({ place }: { place: Place }) {
  const isGone = place.node !== null && !place.node.alive;
  return (
    <li className={css.tile} data-node-tile={place.host} data-gone={isGone || undefined}>
      <div>
        <b className="anywhere">{visible(place.host) || "node"}</b> {place.node?.is_head && <span className="tag">head</span>}
        {isGone && (
          <Chip tone="bad" sign="✕">
            gone
          </Chip>
        )}
        {place.node && (
          <div className="faint tiny mono" title="Ray node ID">
            {place.node.node.slice(0, 12)}
          </div>
        )}
      </div>
      {place.node ? <Room node={place.node} /> : <span className="faint small">not a node of this Ray cluster</span>}
      <ul className={css.runs}>
        {place.runs.map(({ run, workers }) => (
          <li key={run} className="small">
            <Link to="/runs/$name/fleet" params={{ name: run }}>
              {visible(run)}
            </Link>{" "}
            <span className="soft">{counted(workers, "worker")}</span>
          </li>
        ))}
        {place.runs.length === 0 && <li className="faint small">no workers</li>}
      </ul>
      <CordonMachine place={place} />
    </li>
  );
}

type Props = { nodes: RayNode[]; placements: NodeWorkers[]; cordons: MachineCordon[] };

/** One tile per machine: reserved resources, workers by run, and its cordon. */
export function Topology({ nodes, placements, cordons }: Props) {
  const places = placesOf(nodes, placements, cordons);
  if (places.length === 0) return null;
  return (
    <ul className={css.tiles} aria-label="Machines and their workers">
      {places.map((place) => (
        <Tile key={`${place.host} ${place.node?.node ?? place.cordon?.node ?? ""}`} place={place} />
      ))}
    </ul>
  );
}
