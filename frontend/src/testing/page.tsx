/** Open a page of the dashboard in jsdom, as a browser does. */

import { MantineProvider } from "@mantine/core";
import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { cleanup, fireEvent, render, screen, within } from "@testing-library/react";
import { userEvent } from "@testing-library/user-event";
import { vi } from "vitest";
import type { Session } from "@/api/types";
import { Server } from "@/testing/server";

/** A server whose user is signed in. */
export function serverFor(role: Session["role"] = "admin"): Server {
  const session: Session = { authenticated: true, username: "ada", role };
  return new Server().on("GET", "/api/v1/session", session).tell("me", { session, notice: null });
}

let stop = () => {};

/** Load an address. All modules are new, as in a page that the browser has loaded. */
export async function load(address: string) {
  cleanup();
  stop();
  window.history.replaceState(null, "", address);
  vi.resetModules();
  const [{ router }, { queries }, { theme }, { stopLive }] = await Promise.all([
    import("@/router"),
    import("@/api/client"),
    import("@/theme/theme"),
    import("@/live/live"),
  ]);
  stop = () => {
    stopLive();
    queries.clear();
  };
  render(
    <QueryClientProvider client={queries}>
      {/* Without style sheets jsdom computes styles, and thus roles, much faster. */}
      <MantineProvider theme={theme} defaultColorScheme="auto" withCssVariables={false} withGlobalClasses={false}>
        <RouterProvider router={router} />
      </MantineProvider>
    </QueryClientProvider>,
  );
  return userEvent.setup({ delay: null });
}

/** Load the same address again. */
export const reload = () => load(here());

/** The path and search of the open page. */
export const here = () => location.pathname + location.search;

/** Set the text of a field at once. */
export function fill(field: HTMLElement, value: string): void {
  field.focus();
  fireEvent.change(field, { target: { value } });
}

/** The only element that a selector matches. */
export async function one(selector: string): Promise<HTMLElement> {
  return await vi.waitFor(() => {
    const found = document.querySelectorAll<HTMLElement>(selector);
    if (found.length !== 1) throw new Error(`${found.length} elements match ${selector}`);
    return found[0] as HTMLElement;
  }, 15_000);
}

export const heading = (name: string | RegExp, level?: number) => screen.findByRole("heading", { name, level });

/** Click a button, once it is there. */
export async function press(name: string | RegExp): Promise<void> {
  fireEvent.click(await screen.findByRole("button", { name }));
}

/** The open dialog with a title. */
export async function dialog(name: string | RegExp) {
  return within(await screen.findByRole("dialog", { name }));
}

/** Choose an entry of the open menu. */
export async function pick(name: string | RegExp): Promise<void> {
  fireEvent.click(await screen.findByRole("menuitem", { name }));
}
