import type { ReactNode } from "react";
import { EmptyState } from "@/components/panels";
import type { GuidePage } from "@/guide";
import { useRun } from "@/pages/run/RunContext";
import { trainerCommand } from "@/runs/words";

/** An empty view of the open run, with the command that starts its trainer. */
export function NoDataYet({ title, guide, children }: { title: string; guide?: GuidePage; children: ReactNode }) {
  const { run } = useRun();
  return (
    <EmptyState title={title} guide={guide} command={trainerCommand(run, location.origin)} needs={{ scope: "trainer", run: run.name }}>
      {children}
    </EmptyState>
  );
}
