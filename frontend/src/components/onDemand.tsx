/** Components whose code is loaded when they are first shown. */

import type { RouteComponent } from "@tanstack/react-router";
import { type ComponentType, createElement, type ReactNode, useEffect, useState } from "react";
import { ErrorState } from "@/components/ErrorState";

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
