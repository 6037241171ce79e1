/** The address of the open view, for other people. */

import type { AnyRouter } from "@tanstack/react-router";
import { live } from "@/live/live";
import { fixed, known } from "@/share/share";

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
