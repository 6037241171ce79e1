/** Read, change and reset the user's last choice of metrics. */

import { useDebouncedCallback } from "@mantine/hooks";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { type Choice, type ChoiceKind, type ChoicePage, type ChoiceView, metricChoicesQuery, saveChoice } from "@/api/metricChoices";

const SAVED_AFTER_MS = 800;

export type RememberedChoice = {
  /** Whether the choice is still loading; a refused request counts as no choice. */
  isPending: boolean;
  choice: ChoiceView | undefined;
  /** Store a choice; requests are delayed until the user pauses. */
  remember: (view: ChoiceView) => void;
  /** Delete the choice, so that the page shows its defaults. */
  forget: () => void;
};

/** The user's last choice on a page for one kind of run. */
export function useRememberedChoice(page: ChoicePage, kind: ChoiceKind): RememberedChoice {
  const queries = useQueryClient();
  const { data = [], isPending } = useQuery(metricChoicesQuery);
  const isHere = (row: Choice) => row.page === page && row.kind === kind;
  // A refusal leaves the choice in this tab only.
  const send = (choice: Parameters<typeof saveChoice>[0]) => void saveChoice(choice).catch(() => undefined);
  const sendSoon = useDebouncedCallback(send, { delay: SAVED_AFTER_MS, flushOnUnmount: true });
  const keep = (view: ChoiceView | null) =>
    queries.setQueryData(metricChoicesQuery.queryKey, (rows: Choice[] = []) => [
      ...rows.filter((row) => !isHere(row)),
      ...(view ? [{ page, kind, view, changed_at: new Date().toISOString() }] : []),
    ]);
  return {
    isPending,
    choice: data.find(isHere)?.view,
    remember: (view) => {
      keep(view);
      sendSoon({ page, kind, view });
    },
    forget: () => {
      sendSoon.cancel();
      keep(null);
      send({ page, kind, view: null });
    },
  };
}
