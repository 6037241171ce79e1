import { type AnyRouter, useRouter } from "@tanstack/react-router";
import { createContext, type ReactNode, useEffect, useMemo } from "react";
import { copyText } from "@/charts/save";
import { live } from "@/live/live";
import { fixed, known, type ShareSearch, withLook } from "@/share/share";

type Validate = (search: Record<string, unknown>) => object;

/**
 * The full URL of the open page with all state that its routes keep in it.
 *
 * `focus` names a place on the page to scroll to; without it the link keeps that of the address.
 */
export function viewLink(router: AnyRouter, focus?: string): string {
  const { location, matches } = router.state;
  const validators = matches.flatMap(({ routeId }) => {
    const validate: unknown = router.routesById[routeId]?.options.validateSearch;
    return typeof validate === "function" ? [validate as Validate] : [];
  });
  const search = fixed(known(location.search as Record<string, unknown>, validators), live.serverNow() / 1000);
  const { href } = router.buildLocation({ to: location.pathname, search: focus === undefined ? search : { ...search, focus } } as never);
  return window.location.origin + href;
}

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

/** Scroll to the place and highlight it, as soon as it is on the page; a key or a scroll ends the scrolling. */
function bring(focus: string): () => void {
  const began = performance.now();
  let foundAt: number | null = null;
  let marked: Element | null = null;
  let isLeft = false;
  const leave = () => {
    isLeft = true;
  };
  const end = () => {
    clearInterval(timer);
    marked?.removeAttribute("data-highlighted");
    for (const event of LEAVES) window.removeEventListener(event, leave);
  };
  const timer = setInterval(() => {
    const now = performance.now();
    const element = document.querySelector(`[data-target="${CSS.escape(focus)}"]`);
    if (element && element !== marked) {
      marked?.removeAttribute("data-highlighted");
      element.setAttribute("data-highlighted", "");
      marked = element;
      foundAt ??= now;
    }
    const isHeld = foundAt !== null && now - foundAt < HELD_MS && !isLeft;
    if (element && isHeld && !isOnScreen(element)) element.scrollIntoView({ block: "center" });
    if (foundAt === null ? isLeft || now - began > FOUND_WITHIN_MS : now - foundAt > HIGHLIGHTED_MS) end();
  }, LOOK_MS);
  for (const event of LEAVES) window.addEventListener(event, leave, { passive: true });
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
