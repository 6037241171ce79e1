import { fireEvent, screen, waitFor, within } from "@testing-library/react";
import { beforeEach, expect, it, vi } from "vitest";
import { load, serverFor } from "@/testing/page";
import { addRun, runOf } from "@/testing/runs";

// React and the router print each error that a boundary catches.
beforeEach(() => {
  for (const level of ["error", "warn"] as const) vi.spyOn(console, level).mockImplementation(() => {});
});

const rail = () => screen.findByRole("navigation", { name: "Main" });

it("replaces only the panels that cannot render an answer, and renders them again on request", async () => {
  const server = serverFor();
  addRun(server, runOf("pole"));
  server.on("GET", "/api/v1/runs/{run}/queue", { ledger: null } as never);
  await load("/runs/pole/queue");
  const failed = await screen.findAllByRole("region", { name: "Failed panel" });
  expect(await screen.findByRole("region", { name: "Batches" })).toBeVisible();
  expect(within(await rail()).getByRole("link", { name: /Cluster/ })).toBeVisible();
  expect(screen.getByRole("heading", { name: "pole", level: 1 })).toBeVisible();
  fireEvent.click(within(failed[0] as HTMLElement).getByRole("button", { name: "Retry" }));
  await waitFor(() => expect(screen.getAllByRole("region", { name: "Failed panel" })).toHaveLength(failed.length));
});

it("keeps header and navigation if a whole page fails, and renders it again on request", async () => {
  const server = serverFor();
  addRun(server, runOf("pole"));
  server.on("GET", "/api/v1/runs/{run}/weights", { results: [null], next: null } as never);
  await load("/runs/pole/weights");
  await waitFor(() => expect(screen.getByText("Page failed")).toBeVisible());
  expect(screen.getByRole("heading", { name: "pole", level: 1 })).toBeVisible();
  expect(within(await rail()).getByRole("link", { name: /Cluster/ })).toBeVisible();
  fireEvent.click(screen.getByRole("button", { name: "Retry" }));
  await waitFor(() => expect(screen.getByText("Page failed")).toBeVisible());
});
