import { fireEvent, screen, waitFor } from "@testing-library/react";
import { describe, expect, it } from "vitest";
import type { FleetPart, WorkerRow } from "@/api/types";
import { present, sizePending, whatHappens } from "@/pages/run/fleet/FleetSize";
import { dialog, fill, load, one, serverFor } from "@/testing/page";
import { addRun, runOf } from "@/testing/runs";
import { Refusal } from "@/testing/server";

function workerOf(index: number): WorkerRow {
  return {
    index,
    incarnation: `${index}@0`,
    state: "running",
    reason: "",
    heartbeat_at: new Date().toISOString(),
    age_seconds: 0,
    node: "node-a",
    pid: 100,
    restarts: 0,
    announced_step: 0,
    staged_step: 0,
    active_step: 0,
    env_steps: 0,
    env_steps_per_second: 0,
    fragments_cut: 0,
    fragments_sent: 0,
    to_send: 0,
    outstanding: 0,
    dropped_steps: {},
    stages: {},
    time_use: "",
    slots: [],
    shares: {},
    cpu_percent: null,
    memory_bytes: null,
    gpu_percent: null,
    gpu_memory_bytes: null,
    replicas: [],
    transfers: { received: 0, adopted: 0, superseded: 0, refused: 0, failed: 0, received_bytes: 0, seconds: 0, order: 0 },
    is_to_restart: false,
    last_log: "",
    cordon: "",
    cordoned_at: null,
    cordoned_by: "",
    cordon_reason: "",
  };
}

function fleetOf(...workers: WorkerRow[]): FleetPart {
  const now = new Date().toISOString();
  return {
    desired: "running",
    observed: "running",
    observed_at: now,
    age_seconds: 0,
    confirmed_at: now,
    launched_at: now,
    attempt: 1,
    reason: "",
    env_steps_total: 0,
    workers,
  };
}

it("does not change the fleet when the server refuses a size after the role has changed", async () => {
  const session = (role: "operator" | "viewer") => ({ authenticated: true, username: "lou", role });
  const server = serverFor("operator").tell("me", { session: session("operator") });
  addRun(server, runOf("resized", { kind: "fleet", num_workers: 2 }));
  server
    .tell("run:resized", { fleet: fleetOf(workerOf(0), workerOf(1)) })
    .on("PATCH", "/api/v1/runs/{run}", new Refusal({ status: 403, code: "forbidden", detail: "Requires the operator role." }));
  await load("/runs/resized/fleet");
  const button = await one("[data-resize]");
  fireEvent.click(button);
  const asked = await dialog("Workers of resized");
  fill(asked.getByLabelText("Workers"), "9");
  // An administrator revokes the permission while the dialog is open.
  server.on("GET", "/api/v1/session", session("viewer")).tell("me", { session: session("viewer") });
  fireEvent.click(asked.getByRole("button", { name: "Resize" }));
  expect(await asked.findByRole("alert")).toHaveTextContent("Fleet not resized");
  expect(server.bodies("PATCH", "/api/v1/runs/resized")).toEqual([{ num_workers: 9, reason: "" }]);
  fireEvent.click(asked.getByRole("button", { name: "Cancel" }));
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  // The page has received the change of permissions.
  expect(await one("[data-resize]")).toBeDisabled();
  expect(document.querySelector("[data-size=requested]")).toBeNull();
});

describe("a new size of the fleet", () => {
  it("describes an increase", () => {
    expect(whatHappens(2, 3)).toBe("Starts 1 worker.");
    expect(whatHappens(2, 5)).toBe("Starts 3 workers.");
  });

  it("describes a decrease", () => {
    expect(whatHappens(3, 1)).toBe("2 workers will send pending data and exit.");
  });

  it("describes no change", () => {
    expect(whatHappens(2, 2)).toContain("is not changed");
  });
});

const rows = (...states: ("running" | "respawning" | "unknown" | "stopped")[]) => states.map((state) => ({ state }));

describe("the size of a fleet now", () => {
  it("counts present workers", () => {
    expect(present(rows("running", "respawning", "unknown", "stopped"))).toBe(3);
  });

  it("shows the request until applied", () => {
    expect(sizePending(3, rows("running"))).toBe("requested: 3 workers; 1 present");
    expect(sizePending(1, rows("running", "running"))).toBe("requested: 1 worker; 2 present");
    expect(sizePending(1, rows("running", "stopped"))).toBe("");
  });

  it("counts cordoned places", () => {
    expect(sizePending(2, [{ state: "running" }, { state: "stopped", cordon: "out" }])).toBe("");
  });

  it("is empty without workers", () => {
    expect(sizePending(2, [])).toBe("");
  });
});
