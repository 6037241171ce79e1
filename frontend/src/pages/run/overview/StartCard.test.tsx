import { fireEvent, screen, within } from "@testing-library/react";
import { expect, it } from "vitest";
import { load, serverFor } from "@/testing/page";
import { addRun, runOf } from "@/testing/runs";

it("stays in its place once the first batch was served, until it is hidden", async () => {
  const server = serverFor().on("GET", "/api/v1/alerts", { results: [], next: null } as never);
  const run = runOf("first", { kind: "fleet", status: "running", policy_step: -2, served_steps: 0, num_workers: 2 });
  addRun(server, run);
  await load("/runs/first");
  const card = await screen.findByRole("region", { name: "Start training" });
  expect(within(card).getByText(/python examples\/ppo_cartpole.py/)).toBeVisible();
  server.tell("run:first" as never, { run: { ...run, policy_step: 1, served_steps: 1 } } as never);
  const over = await screen.findByRole("region", { name: "Training" });
  expect(over).toHaveTextContent("The first batch was served to the trainer.");
  fireEvent.click(within(over).getByRole("button", { name: "Hide" }));
  expect(screen.queryByRole("region", { name: "Training" })).toBeNull();
});
