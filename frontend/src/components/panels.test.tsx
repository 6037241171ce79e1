import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider, useQuery } from "@tanstack/react-query";
import { fireEvent, render, screen, waitFor, within } from "@testing-library/react";
import type { ReactNode } from "react";
import { beforeEach, expect, it, vi } from "vitest";
import { Dialog, SideSheet } from "@/components/Dialog";
import { Boundary, Guarded, Panel, Panels } from "@/components/panels";
import { Table } from "@/components/Table";
import { heading, load, serverFor } from "@/testing/page";
import { addRun, runOf } from "@/testing/runs";
import { sampleOf, samplesOf } from "@/testing/samples";

// React and the router print each error that a boundary catches.
beforeEach(() => {
  for (const level of ["error", "warn"] as const) vi.spyOn(console, level).mockImplementation(() => {});
});

const rail = () => screen.findByRole("navigation", { name: "Main" });

/** A part whose first answer cannot be rendered. */
function Broken({ answers }: { answers: (() => unknown)[] }) {
  const { data } = useQuery({ queryKey: ["answer"], queryFn: () => answers.shift()?.(), retry: false });
  if (data === "broken") throw new Error("data.results is undefined");
  return <p>{data === undefined ? "waiting" : "mended"}</p>;
}

const KINDS: [string, (broken: ReactNode) => ReactNode][] = [
  ["Panel", (broken) => <Panel title="Queue">{broken}</Panel>],
  ["Panel", (broken) => <Guarded>{broken}</Guarded>],
  ["Panel", (broken) => <Panels>{broken}</Panels>],
  [
    "Dialog",
    (broken) => (
      <Dialog title="Stop" onClose={() => {}}>
        {broken}
      </Dialog>
    ),
  ],
  [
    "Dialog",
    (broken) => (
      <SideSheet title="Batch" onClose={() => {}}>
        {broken}
      </SideSheet>
    ),
  ],
  [
    "Table",
    (broken) => (
      <Table columns={["Run"]}>
        <tr>
          <td>{broken}</td>
        </tr>
      </Table>
    ),
  ],
  ["Message", (broken) => <Boundary part="Message">{broken}</Boundary>],
];

it.each(KINDS)("replaces a %s that cannot be rendered, and requests its data again", async (part, place) => {
  const text = vi.fn();
  Object.assign(document, { execCommand: () => text() });
  render(
    <QueryClientProvider client={new QueryClient()}>
      <MantineProvider env="test">
        {place(<Broken answers={[() => "broken", () => "good"]} />)}
        <p>neighbour</p>
      </MantineProvider>
    </QueryClientProvider>,
  );
  const alert = await screen.findByRole("alert");
  expect(within(alert).getByText(`${part} failed`)).toBeVisible();
  expect(alert).toHaveTextContent("data.results is undefined");
  expect(screen.getByText("neighbour")).toBeInTheDocument();
  fireEvent.click(within(alert).getByRole("button", { name: "Copy error" }));
  expect(await within(alert).findByText("Copied")).toBeVisible();
  fireEvent.click(within(alert).getByRole("button", { name: "Retry" }));
  expect(await screen.findByText("mended")).toBeInTheDocument();
  expect(screen.queryByRole("alert")).toBeNull();
});

it("replaces only the panels that cannot render an answer, and renders them again on request", async () => {
  const server = serverFor();
  addRun(server, runOf("pole"));
  server.on("GET", "/api/v1/runs/{run}/queue", { ledger: null } as never);
  await load("/runs/pole/queue");
  const failed = await screen.findAllByRole("region", { name: "Failed panel" });
  expect(await screen.findByRole("region", { name: "Batches" })).toBeVisible();
  expect(within(await rail()).getByRole("link", { name: /Cluster/ })).toBeVisible();
  expect(await heading("pole", 1)).toBeVisible();
  fireEvent.click(within(failed[0] as HTMLElement).getByRole("button", { name: "Retry" }));
  await waitFor(() => expect(screen.getAllByRole("region", { name: "Failed panel" })).toHaveLength(failed.length));
});

it("replaces only the row of a sample that cannot be rendered", async () => {
  serverFor()
    .on("GET", "/api/v1/trajectories/filter", { results: [], next: null })
    .on("GET", "/api/v1/trajectories", samplesOf([sampleOf("7", { flags: null as never }), sampleOf("8")]));
  await load("/trajectories");
  expect(await screen.findByText("Row failed")).toBeVisible();
  expect(screen.getByRole("link", { name: "Prompt 8" })).toBeVisible();
  expect(screen.getByRole("combobox", { name: "Filter samples" })).toBeVisible();
});

it("shows another view of the same place after an error", async () => {
  serverFor()
    .on("GET", "/api/v1/trajectories/filter", { results: [], next: null })
    .on("GET", "/api/v1/trajectories", (({ query }: { query: URLSearchParams }) =>
      samplesOf([sampleOf("7", query.get("sort") ? {} : { flags: null as never })])) as never);
  await load("/trajectories");
  await screen.findByText("Row failed");
  fireEvent.click(screen.getByRole("button", { name: /Version/ }));
  expect(await screen.findByRole("link", { name: "Prompt 7" })).toBeVisible();
});

it("keeps header and navigation, whichever page fails", async () => {
  const server = serverFor();
  addRun(server, runOf("pole"));
  await load("/login");
  const { router } = await import("@/router");
  const pages = Object.values(router.routesById).filter(
    ({ id, children }) => id.startsWith("/shell/") && !(children && Object.keys(children).length > 0),
  );
  expect(pages.length).toBeGreaterThan(20);
  const Page = () => {
    throw new Error("broken page");
  };
  for (const page of pages) page.update({ component: Page, beforeLoad: undefined, validateSearch: undefined } as never);
  for (const page of pages) {
    const params = { name: "pole", project: "p", group: "1", fragment: "1", _splat: "x" };
    await router.navigate({ to: page.fullPath, params } as never);
    expect(await screen.findByText("broken page"), page.id).toBeVisible();
    expect(screen.getByText("Page failed")).toBeVisible();
    expect(within(await rail()).getByRole("link", { name: /Cluster/ })).toBeVisible();
    if (page.id.includes("$name")) expect(await heading("pole", 1)).toBeVisible();
  }
});
