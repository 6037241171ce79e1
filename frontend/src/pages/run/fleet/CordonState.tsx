import type { WorkerRow } from "@/api/types";
import { Age } from "@/components/Age";
import { visible } from "@/format";

const WORDS: Record<Exclude<WorkerRow["cordon"], "" | undefined>, [sign: string, text: string]> = {
  requested: ["◷", "requested: drain and cordon"],
  draining: ["◕", "draining, then cordoned"],
  out: ["✓", "cordoned"],
  lifting: ["◷", "requested: uncordon"],
};

/** The cordon request for one worker, and its progress. */
export function CordonState({ worker }: { worker: WorkerRow }) {
  if (!worker.cordon) return null;
  const [sign, text] = WORDS[worker.cordon];
  return (
    <div className="small soft anywhere" role="status" data-cordon={worker.cordon}>
      <span aria-hidden="true">{sign}</span> {text}
      {worker.cordoned_at && (
        <>
          {" "}
          by {visible(worker.cordoned_by ?? "")} <Age at={worker.cordoned_at} suffix=" ago" />
        </>
      )}
      {worker.cordon_reason && <>: {visible(worker.cordon_reason)}</>}
    </div>
  );
}
