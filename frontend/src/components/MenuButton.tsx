import { cloneElement, createElement, type ReactElement, useState } from "react";
import type { OnDemand } from "@/components/onDemand";

type Button = ReactElement<Record<string, unknown>>;
/** What the menu of a button receives. */
export type MenuOf = { target: Button };

/** A button whose menu is loaded when it is first used; `menu` renders the button from then on, and opens itself. */
export function MenuButton<P extends MenuOf>({ menu, target, ...props }: { menu: OnDemand<P> } & P) {
  const [isUsed, setUsed] = useState(false);
  if (isUsed) return createElement(menu, { target, ...props } as unknown as P & object);
  return cloneElement(target, {
    "aria-haspopup": "menu",
    ...target.props,
    onPointerEnter: menu.preload,
    onFocus: menu.preload,
    onClick: () => void menu.preload().then(() => setUsed(true)),
  });
}
