import { fireEvent, screen, waitFor, within } from "@testing-library/react";
import { expect, it } from "vitest";
import type { Cluster, Part } from "@/api/deployment";
import { dialog, fill, load, serverFor } from "@/testing/page";

const AT = new Date().toISOString();
const part: Part = { state: "up", confirmed_at: AT, problem: "", took_ms: 1 };
const cluster: Cluster = {
  at: AT,
  process_word_seconds: 15,
  web: [],
  workers: [],
  schedulers: [],
  jobs: { ...part, state: "down", problem: "jobs do not run: no heartbeats from the scheduler" },
  exits: [
    {
      part: "ray",
      host: "gpu-1",
      exits: 3,
      first_at: AT,
      last_at: AT,
      reason: "ray ended (signal SIGKILL)",
      log: "out of \u202ememory",
    },
    { part: "beat", host: "gpu-1", exits: 1, first_at: AT, last_at: AT, reason: "beat ended (exit code 2)", log: null },
  ],
  ray: { ...part, address: null, nodes: [] },
  database: part as Cluster["database"],
  broker: part as Cluster["broker"],
  storage: { ...part, kind: "files", keep_free_bytes: 0 } as Cluster["storage"],
  placements: [],
  cordons: [],
  versions: {},
};

it("shows why the jobs do not run, and why parts exited", async () => {
  serverFor().tell("cluster_admin", { cluster });
  await load("/cluster");

  const exits = within(await screen.findByRole("list", { name: "Exits" }));
  expect(screen.getAllByText(/jobs do not run: no heartbeats from the scheduler/)[0]).toBeVisible();
  const [ray, beat] = exits.getAllByRole("listitem");
  expect(ray).toHaveTextContent(/ray gpu-1: 3 exits since \d\d:\d\d.*ray ended \(signal SIGKILL\)Last lines of the log/);
  expect(ray).toHaveTextContent("out of ⟨U+202E⟩memory");
  expect(beat).toHaveTextContent(/beat gpu-1: 1 exit, .*beat ended \(exit code 2\)$/);
  expect(beat).not.toHaveTextContent("since");
});

it("lists no exits without any", async () => {
  serverFor("viewer").tell("cluster", { cluster: { ...cluster, exits: [] } });
  await load("/cluster");

  expect((await screen.findAllByText(/jobs do not run/))[0]).toBeVisible();
  expect(screen.queryByRole("list", { name: "Exits" })).toBeNull();
});

it("sets a notice, and removes it with an empty text", async () => {
  const server = serverFor().tell("cluster_admin", { cluster });
  const notice = { text: "The disk is changed at noon", reason: "it is full", until: null, set_by: "user:ada", set_at: AT };
  server
    .on("PUT", "/api/v1/server/notice", () => {
      server.tell("me", { notice });
      return { notice };
    })
    .on("DELETE", "/api/v1/server/notice", () => {
      server.tell("me", { notice: null });
      return null as never;
    });
  await load("/cluster");
  server.tell("me", { notice: null });
  const open = await screen.findByRole("button", { name: "Notice…" });
  await waitFor(() => expect(open).toBeEnabled());
  fireEvent.click(open);
  let asked = await dialog("Notice to all users");
  expect(asked.getByRole("button", { name: "Set notice" })).toBeDisabled();
  fill(asked.getByLabelText("Notice"), notice.text);
  fill(asked.getByLabelText("Reason"), notice.reason);
  fireEvent.click(asked.getByRole("button", { name: "Set notice" }));
  await waitFor(() => expect(document.querySelector("[data-notice]")).toHaveTextContent(notice.text));
  expect(server.bodies("PUT", "/api/v1/server/notice")).toEqual([{ text: notice.text, reason: notice.reason, until: null }]);

  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  fireEvent.click(open);
  asked = await dialog("Notice to all users");
  expect(asked.getByText(/^Set by user:ada: it is full\./)).toBeVisible();
  fill(asked.getByLabelText("Notice"), "");
  fireEvent.click(asked.getByRole("button", { name: "Remove notice" }));
  await waitFor(() => expect(document.querySelector("[data-notice]")).toBeNull());
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
});
