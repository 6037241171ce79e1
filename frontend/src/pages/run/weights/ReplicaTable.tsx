import type { WorkerRow } from "@/api/types";
import { Age } from "@/components/Age";
import { Panel } from "@/components/Panel";
import { Table } from "@/components/Table";
import { policyStep, visible } from "@/format";
import { replicasOf } from "@/pages/run/weights/replicas";

/** Engines of the run's inference server, with the version that each has; nothing without a server. */
export function ReplicaTable({ workers }: { workers: readonly WorkerRow[] }) {
  const replicas = replicasOf(workers);
  if (replicas.length === 0) return null;
  return (
    <Panel title="Inference engines" note="as the workers last reached them" className="span-12">
      <Table
        label="Inference engines"
        columns={["Address", { label: "Version", className: "num" }, { label: "Last contact", className: "num" }, "Problem"]}
      >
        {replicas.map(({ address, version, contactAt, error }) => (
          <tr key={address} data-replica={address}>
            <td className="nowrap">{visible(address)}</td>
            <td className="num">{version ? `${version[0]}.${policyStep(version[1])}` : "–"}</td>
            <td className="num">{contactAt ? <Age at={contactAt} suffix=" ago" /> : "–"}</td>
            <td>{error ? visible(error) : "–"}</td>
          </tr>
        ))}
      </Table>
    </Panel>
  );
}
