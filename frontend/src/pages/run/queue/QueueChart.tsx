import { getRouteApi } from "@tanstack/react-router";
import { useMemo } from "react";
import type { QueueAnswer, RunDetail } from "@/api/types";
import { RunWall } from "@/pages/run/RunWall";
import { unitOf } from "@/runs/queued";
import { presetsNamed } from "@/wall/presets";

const route = getRouteApi("/shell/runs/$name/queue");

/** Queue depth over time, with the threshold above which producers pause. */
export function QueueChart({ run, queue, className }: { run: RunDetail; queue: QueueAnswer | undefined; className: string }) {
  const navigate = route.useNavigate();
  const panels = useMemo(() => presetsNamed(run.kind, "queue").map((one) => ({ ...one, className: "" })), [run.kind]);
  return (
    <RunWall
      panels={panels}
      range={route.useSearch()}
      onRange={(range) => void navigate({ search: (old) => ({ ...old, ...range }), replace: true, resetScroll: false })}
      className={className}
      current={{ queue: queue?.ledger[unitOf(run.kind)].queued ?? null }}
    />
  );
}
