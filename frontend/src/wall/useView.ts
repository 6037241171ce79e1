/** The view of a page: read from the address, changed in it, and remembered for the next visit. */

import { useLocalStorage } from "@mantine/hooks";
import { useEffect } from "react";
import type { ShareSearch } from "@/share/share";
import { isDefault, REMEMBERED, type Remembered, rememberedOf, type View, viewSearch } from "@/wall/view";

type Search = View & ShareSearch;
type Navigate = (options: { search: (old: Search) => Search; replace: boolean; resetScroll: false }) => Promise<void>;

type Options = {
  search: Search;
  navigate: unknown;
  /** Name of the page and kind of its runs: each has its own remembered view. */
  page: string;
};

/** A stored view; undefined for a text of another version or program. */
function stored(text: string | undefined): Remembered | undefined {
  try {
    const value: unknown = JSON.parse(text ?? "null");
    return value && typeof value === "object" ? rememberedOf(viewSearch(value as Record<string, unknown>)) : undefined;
  } catch {
    return undefined;
  }
}

/** Parameters of every page with charts that select runs. */
const OF_RUNS: ReadonlySet<string> = new Set(["runs", "hide"]);

/** The parameters that a remembered view adds to an address; null if the address has its own or the view is the default. */
export function recalled(search: Search, remembered: Remembered | undefined): Remembered | null {
  const isBare = Object.entries(search).every(([name, value]) => value === undefined || OF_RUNS.has(name));
  return remembered && isBare && !isDefault(remembered) ? remembered : null;
}

export type ViewState = {
  /** Changes by the user; those of panels and axes are remembered. */
  change: (more: Search) => void;
  /** Changes that are not remembered. */
  apply: (more: Search) => void;
  /** Show the defaults and forget the remembered view; absent while they are shown. */
  reset?: () => void;
  /** Whether a remembered view is still to be recalled. */
  isPending: boolean;
};

/** Changes of the address by the user, remembered as their view; it is recalled in an address without one. */
export function useView({ search, navigate, page }: Options): ViewState {
  const [remembered, remember, forget] = useLocalStorage<Remembered | undefined>({
    key: `rolldeck-view-${page}`,
    getInitialValueInEffect: false,
    deserialize: stored,
  });
  const apply = (more: Search) =>
    void (navigate as Navigate)({
      search: (old) => ({ ...old, ...more }),
      replace: !("from" in more || "runs" in more),
      resetScroll: false,
    });
  const change = (more: Search) => {
    if (REMEMBERED.some((name) => name in more)) remember(rememberedOf({ ...search, ...more }));
    apply(more);
  };
  const recall = recalled(search, remembered);
  useEffect(() => {
    if (recall) apply(recall);
  }, [recall !== null]);
  const reset = () => {
    forget();
    apply({ charts: undefined, x: undefined, smooth: undefined, view: undefined, from: undefined, to: undefined });
  };
  return { change, apply, reset: isDefault(search) ? undefined : reset, isPending: recall !== null };
}
