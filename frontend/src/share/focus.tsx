import { useRouter } from "@tanstack/react-router";
import { createContext, type ReactNode, useEffect, useMemo } from "react";
import { copyText } from "@/charts/save";
import { viewLink } from "@/share/link";
import type { ShareSearch } from "@/share/share";

export type Sharing = {
  /** The place and the chart state of the opened link. */
  opened: ShareSearch;
  /** Copy a link to a place of this page. */
  copy: (place: ShareSearch) => void;
};

/** Null where the charts of a page have no links of their own. */
export const SharingContext = createContext<Sharing | null>(null);

const LOOK_MS = 100;
/** Data of the page may arrive late. */
const FOUND_WITHIN_MS = 30_000;
/** Charts above the place grow while they load. */
const HELD_MS = 3_000;
const HIGHLIGHTED_MS = 8_000;
const LEAVES = ["wheel", "touchstart", "keydown", "mousedown"] as const;

function isOnScreen(element: Element): boolean {
  const { top, bottom } = element.getBoundingClientRect();
  const middle = (top + bottom) / 2;
  return middle > 0 && middle < window.innerHeight;
}

/** Scroll to the place and highlight it, as soon as it is on the page; a key or a scroll ends this. */
function bring(focus: string): () => void {
  const began = performance.now();
  let foundAt: number | null = null;
  let marked: Element | null = null;
  const end = () => {
    clearInterval(timer);
    for (const event of LEAVES) window.removeEventListener(event, end);
  };
  const unmark = () => marked?.removeAttribute("data-highlighted");
  const timer = setInterval(() => {
    const element = document.querySelector(`[data-target="${CSS.escape(focus)}"]`);
    const now = performance.now();
    if (element) {
      foundAt ??= now;
      if (marked !== element) {
        unmark();
        marked = element;
        element.setAttribute("data-highlighted", "");
        element.scrollIntoView({ block: "center" });
      } else if (!isOnScreen(element)) element.scrollIntoView({ block: "center" });
    }
    if (now - (foundAt ?? began) > (foundAt === null ? FOUND_WITHIN_MS : HELD_MS)) end();
  }, LOOK_MS);
  for (const event of LEAVES) window.addEventListener(event, end, { passive: true });
  const late = setTimeout(unmark, FOUND_WITHIN_MS + HIGHLIGHTED_MS);
  const soon = setInterval(() => {
    if (foundAt !== null && performance.now() - foundAt > HIGHLIGHTED_MS) {
      unmark();
      clearInterval(soon);
    }
  }, 1_000);
  return () => {
    end();
    unmark();
    clearTimeout(late);
    clearInterval(soon);
  };
}

/** Links to places of the page inside, and the place of the opened link. */
export function Sharing({ opened, children }: { opened: ShareSearch; children: ReactNode }) {
  const router = useRouter();
  const { focus, hide, scale } = opened;
  useEffect(() => (focus === undefined ? undefined : bring(focus)), [focus]);
  const hidden = hide?.join("\n");
  const sharing = useMemo(
    () => ({
      opened: { focus, hide: hidden?.split("\n"), scale },
      copy: (place: ShareSearch) => copyText(viewLink(router, place)),
    }),
    [focus, hidden, scale, router],
  );
  return <SharingContext value={sharing}>{children}</SharingContext>;
}
