/** Components whose code is loaded when they are first shown, and menus. */

import type { RouteComponent } from "@tanstack/react-router";
import { type ComponentType, cloneElement, createElement, type ReactElement, type ReactNode, useEffect, useState } from "react";
import { ErrorState } from "@/components/panels";

type PropsOf<C> = C extends (props: infer P) => ReactNode ? (unknown extends P ? object : P) : never;
export type OnDemand<P> = ComponentType<P> & { preload: () => Promise<void> };

const RETRY_MS = 3_000;
const UNREACHABLE = new Error("The server cannot be reached. The code is requested again every 3 s.");
const MISSING = new Error("The server has no such file. Reload the page.");

/** Reload the page once per missing file: a new version of the dashboard has other files. */
async function reloadIfReplaced(failure: Error): Promise<Error> {
  const isReachable = await fetch("/healthz/live", { cache: "no-store" }).then(
    ({ ok }) => ok,
    () => false,
  );
  if (!isReachable) return UNREACHABLE;
  const key = `rolldeck.reloaded:${failure.message}`;
  if (sessionStorage.getItem(key)) return MISSING;
  sessionStorage.setItem(key, "1");
  location.reload();
  return MISSING;
}

/**
 * A component of a module that is loaded on demand.
 *
 * While its code does not load, an error is shown in its place, and the code is requested every 3 s.
 */
export function onDemand<M, K extends keyof M>(load: () => Promise<M>, name: K, pending: ReactNode = null): OnDemand<PropsOf<M[K]>> {
  type Props = PropsOf<M[K]> & object;
  let component: ComponentType<Props> | undefined;
  const request = async () => {
    component ??= (await load())[name] as ComponentType<Props>;
  };

  function OnDemand(props: Props) {
    const [failure, setFailure] = useState<Error | null>(null);
    const [attempt, setAttempt] = useState(0);
    const [, setIsLoaded] = useState(component !== undefined);
    useEffect(() => {
      let isShown = true;
      let timer: ReturnType<typeof setTimeout> | undefined;
      request()
        .then(() => isShown && setIsLoaded(true))
        .catch(async (error: Error) => {
          const reason = await reloadIfReplaced(error);
          if (!isShown) return;
          setFailure(reason);
          timer = setTimeout(() => setAttempt(attempt + 1), RETRY_MS);
        });
      return () => {
        isShown = false;
        clearTimeout(timer);
      };
    }, [attempt]);
    if (component) return createElement(component, props);
    if (failure) return <ErrorState title="Code not loaded" error={failure} onRetry={() => setAttempt(attempt + 1)} />;
    return pending;
  }

  // The router preloads pages; a failure is shown when the page opens.
  return Object.assign(OnDemand, { preload: () => request().catch(() => {}) }) as unknown as OnDemand<PropsOf<M[K]>>;
}

/** A page of a route. Its type does not depend on its module, which depends on the routes. */
export const page = onDemand as unknown as (load: () => Promise<object>, name: string) => RouteComponent;

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
