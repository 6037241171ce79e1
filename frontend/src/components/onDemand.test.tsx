import { MantineProvider } from "@mantine/core";
import { fireEvent, render, screen, waitFor } from "@testing-library/react";
import { beforeEach, expect, it, vi } from "vitest";
import { onDemand } from "@/components/onDemand";

const MODULE = { Page: ({ name }: { name: string }) => <h1>Page of {name}</h1> };
const NOT_LOADED = new TypeError("Failed to fetch dynamically imported module: /assets/page.js");

const show = (load: () => Promise<typeof MODULE>) => {
  const Page = onDemand(load, "Page", <p>Loading</p>);
  render(
    <MantineProvider>
      <Page name="pole" />
    </MantineProvider>,
  );
};

beforeEach(() => sessionStorage.clear());

it("shows the pending content, then the component", async () => {
  show(async () => MODULE);
  expect(screen.getByText("Loading")).toBeVisible();
  expect(await screen.findByRole("heading", { name: "Page of pole" })).toBeVisible();
});

it("shows a preloaded component at once", async () => {
  const Page = onDemand(async () => MODULE, "Page");
  await Page.preload();
  render(<Page name="pole" />);
  expect(screen.getByRole("heading", { name: "Page of pole" })).toBeVisible();
});

it("offers a retry while the server is away, and retries by itself", async () => {
  vi.stubGlobal("fetch", () => Promise.reject(new TypeError("Failed to fetch")));
  const load = vi
    .fn(async () => MODULE)
    .mockRejectedValueOnce(NOT_LOADED)
    .mockRejectedValueOnce(NOT_LOADED);
  show(load);
  expect(await screen.findByText(/server cannot be reached/)).toBeVisible();
  fireEvent.click(screen.getByRole("button", { name: "Retry" }));
  await waitFor(() => expect(load).toHaveBeenCalledTimes(2));
  expect(screen.getByRole("alert")).toBeVisible();
  expect(await screen.findByRole("heading", { name: "Page of pole" }, { timeout: 10_000 })).toBeVisible();
});

it("reloads the page once if the server has other files", async () => {
  const reload = vi.fn();
  vi.stubGlobal("location", { ...location, reload });
  vi.stubGlobal("fetch", async () => new Response("{}"));
  show(() => Promise.reject(NOT_LOADED));
  expect(await screen.findByText(/no such file/)).toBeVisible();
  fireEvent.click(screen.getByRole("button", { name: "Retry" }));
  await waitFor(() => expect(screen.getByText(/no such file/)).toBeVisible());
  expect(reload).toHaveBeenCalledTimes(1);
});
