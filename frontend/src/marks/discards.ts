/** API mutation that discards groups permanently. */

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { api, body } from "@/api/client";
import type { components } from "@/api/schema";

type DiscardOutcome = components["schemas"]["DiscardOutcome"];
type AskedDiscard = { groups: number[]; reason: string };

/** Discard queued or waiting groups; the response lists each group that was not discarded, with the reason. */
export function useDiscardGroups(run: string) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: async (asked: AskedDiscard): Promise<DiscardOutcome[]> =>
      (await body(api.POST("/api/v1/runs/{run}/groups/discard", { params: { path: { run } }, body: asked }))).results,
    onSettled: () => {
      void queries.invalidateQueries({ queryKey: ["samples"] });
      for (const key of ["group", "queue", "ledger"]) void queries.invalidateQueries({ queryKey: [key, run] });
    },
  });
}
