import { useRouter } from "@tanstack/react-router";
import { createContext, type ReactNode, useEffect, useMemo } from "react";
import { copyText } from "@/charts/save";
import { viewLink } from "@/share/link";
import { type ShareSearch, withLook } from "@/share/share";

export type Sharing = {
  /** The looks of the charts of the page, which are part of its address. */
  looks: ShareSearch["looks"];
  /** Change the look of a chart; undefined for the default look. */
  setLook: (name: string, look: string | undefined) => void;
  /** Copy a link to a place of this page. */
  copy: (focus: string) => void;
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
  let isHeld = true;
  const release = () => {
    isHeld = false;
  };
  const end = () => {
    clearInterval(timer);
    marked?.removeAttribute("data-highlighted");
    for (const event of LEAVES) window.removeEventListener(event, release);
  };
  const timer = setInterval(() => {
    const element = document.querySelector(`[data-target="${CSS.escape(focus)}"]`);
    const now = performance.now();
    if (element && element !== marked) {
      foundAt ??= now;
      marked?.removeAttribute("data-highlighted");
      marked = element;
      element.setAttribute("data-highlighted", "");
      if (isHeld) element.scrollIntoView({ block: "center" });
    } else if (element && isHeld && now - (foundAt ?? now) < HELD_MS && !isOnScreen(element)) element.scrollIntoView({ block: "center" });
    if (now - (foundAt ?? began) > (foundAt === null ? FOUND_WITHIN_MS : HIGHLIGHTED_MS) || (foundAt === null && !isHeld)) end();
  }, LOOK_MS);
  for (const event of LEAVES) window.addEventListener(event, release, { passive: true });
  return end;
}

/** Links to places of the page inside, the place of the opened link, and the looks of charts. */
export function Sharing({ opened: { focus, looks }, children }: { opened: ShareSearch; children: ReactNode }) {
  const router = useRouter();
  useEffect(() => (focus === undefined ? undefined : bring(focus)), [focus]);
  const words = JSON.stringify(looks);
  const sharing = useMemo((): Sharing => {
    const setLook = (name: string, look: string | undefined) => {
      const search = (old: ShareSearch) => ({ ...old, looks: withLook(old.looks, name, look) });
      void router.navigate({ to: ".", search, replace: true, resetScroll: false } as never);
    };
    return { looks: words === undefined ? undefined : JSON.parse(words), setLook, copy: (place) => copyText(viewLink(router, place)) };
  }, [words, router]);
  return <SharingContext value={sharing}>{children}</SharingContext>;
}
