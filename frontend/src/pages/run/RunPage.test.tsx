import { fireEvent, screen, waitFor, within } from "@testing-library/react";
import { expect, it, onTestFinished, vi } from "vitest";
import type { Diagnosis } from "@/api/queue";
import type { RunEvent } from "@/api/types";
import { summaryOf } from "@/testing/alerts";
import { dialog, fill, heading, here, load, one, press, reload, serverFor } from "@/testing/page";
import { addRun, NO_LOSSES, runOf } from "@/testing/runs";
import { type AnswerTo, Refusal } from "@/testing/server";

it("kills a run only with its name and a reason", async () => {
  const server = serverFor();
  addRun(server, runOf("to-kill"));
  server.on("POST", "/api/v1/runs/{run}/kill", () => addRun(server, runOf("to-kill", { status: "stopped", allowed_verbs: [] })));
  const user = await load("/runs/to-kill");
  await press("More actions");
  (await one("[data-verb=kill]")).focus();
  await user.keyboard("{Enter}");
  const asked = await dialog("Kill to-kill?");
  const kill = asked.getByRole("button", { name: "Kill" });
  // Keys typed before the field has focus would be lost.
  await waitFor(() => expect(asked.getByLabelText(/^Reason/)).toHaveFocus());
  await user.keyboard("out of patience");
  expect(kill).toBeDisabled();
  fill(asked.getByLabelText(/^Type to-kill to confirm/), "to-kil");
  expect(kill).toBeDisabled();
  await user.keyboard("l{Enter}");
  await one("[data-status=stopped]");
  expect(server.bodies("POST", "/api/v1/runs/to-kill/kill")).toEqual([{ reason: "out of patience" }]);
});

it("deletes an ended run with its name and a reason, and names the data that is removed", async () => {
  const server = serverFor();
  addRun(server, runOf("to-delete", { status: "completed", allowed_verbs: [] }));
  server
    .on("GET", "/api/v1/runs/{run}/deletion", { items: 1200, size_bytes: 3_000_000, refusal: "" })
    .on("DELETE", "/api/v1/runs/{run}", {} as never);
  await load("/runs/to-delete");
  await press("More actions");
  fireEvent.click(await one("[data-verb=delete]"));
  const asked = await dialog("Delete to-delete?");
  expect(await asked.findByText("1,200 groups and 3 MB will be removed.")).toBeVisible();
  fill(asked.getByLabelText(/^Reason/), "wrong data");
  expect(asked.getByRole("button", { name: "Delete" })).toBeDisabled();
  fill(asked.getByLabelText(/^Type to-delete to confirm/), "to-delete");
  fireEvent.click(asked.getByRole("button", { name: "Delete" }));
  await waitFor(() => expect(here()).toBe("/runs"));
  const [sent] = server.asked.filter(({ verb }) => verb === "DELETE");
  expect(sent?.path).toBe("/api/v1/runs/to-delete");
  expect(sent?.query.get("reason")).toBe("wrong data");
});

it("does not offer to delete an active run", async () => {
  const server = serverFor();
  addRun(server, runOf("active"));
  await load("/runs/active");
  await press("More actions");
  await one("[data-verb=kill]");
  expect(document.querySelector("[data-verb=delete]")).toBeNull();
});

it("shows that the open run was deleted", async () => {
  const server = serverFor();
  addRun(server, runOf("open", { status: "completed", allowed_verbs: [] }));
  await load("/runs/open");
  await one("[data-status=completed]");
  server.tell("run:open", { run: null });
  expect(await screen.findByText("Run open was deleted.")).toBeVisible();
});

it("stops a run only with its name and a reason, and names the data that is dropped", async () => {
  const server = serverFor();
  addRun(server, runOf("to-stop"));
  const counts = { accepted: 40, queued: 24, waiting: 0, leased: 1, served: 0, quarantined: 0, dropped: {}, balanced: true };
  const ledger = { groups: counts, fragments: counts, sequences: counts, expired: 0, truncated: 0, ...NO_LOSSES, refused: 0, problem: "" };
  server
    .tell("run:to-stop", { ledger })
    .on("POST", "/api/v1/runs/{run}/stop", () => addRun(server, runOf("to-stop", { status: "draining" })));
  await load("/runs/to-stop");
  await press("More actions");
  fireEvent.click(await one("[data-verb=stop]"));
  const asked = await dialog("Stop to-stop?");
  expect(asked.getByText("24 sequences are queued now, 1 is leased to trainers.")).toBeVisible();
  fill(asked.getByLabelText(/^Reason/), "wrong data");
  expect(asked.getByRole("button", { name: "Stop" })).toBeDisabled();
  fill(asked.getByLabelText(/^Type to-stop to confirm/), "to-stop");
  fireEvent.click(asked.getByRole("button", { name: "Stop" }));
  await waitFor(() => expect(server.bodies("POST", "/api/v1/runs/to-stop/stop")).toEqual([{ reason: "wrong data" }]));
});

it("marks actions, alerts and the diagnosis as outdated while the server does not answer", async () => {
  vi.useFakeTimers({ toFake: ["Date"] });
  onTestFinished(() => void vi.useRealTimers());
  const diagnosis = {
    kind: "waiting_for_trainer",
    summary: "No trainer leases the queued batches.",
    evidence: [],
    further: [],
    run_status: "running",
  };
  const server = serverFor().tell("alerts", { alerts: summaryOf({ errors: 1 }) });
  addRun(server, runOf("left"));
  server.tell("run:left", { diagnosis: { ...diagnosis, change: "", since: null, stage: null } as unknown as Diagnosis });
  server.on("GET", "/api/v1/alerts", { results: [], next: null } as never).on("GET", "/api/v1/metrics/lines", { lines: [] } as never);
  server.on("GET", "/api/v1/runs/{run}/annotations", { results: [], events: [] } as never);
  await load("/runs/left");
  await screen.findByText("No trainer leases the queued batches.");
  await press("More actions");
  expect(await one("[data-verb=stop]")).toBeEnabled();
  server.leave();
  vi.setSystemTime(Date.now() + 25_000);
  await waitFor(async () => expect(await one("[data-verb=stop]")).toBeDisabled(), { timeout: 5_000 });
  expect(await one("[data-verb=stop]")).toHaveAttribute("aria-description", expect.stringMatching(/^No server for 2\d s: /));
  expect(screen.getByRole("region", { name: "Diagnosis" })).toHaveTextContent(/^Outdated: no server for 2\d s\. No trainer/);
  expect(screen.getByRole("link", { name: /^Alerts: 1 error, 2\d s ago: no server since/ })).toBeVisible();
});

it("resets a run with its name and a reason", async () => {
  const server = serverFor();
  const run = addRun(server, runOf("to-reset"));
  server.on("POST", "/api/v1/runs/{run}/reset", { ...run, id: run.id + 1 });
  await load("/runs/to-reset");
  await press("More actions");
  fireEvent.click(await one("[data-verb=reset]"));
  const asked = await dialog("Reset to-reset?");
  fill(asked.getByLabelText(/^Reason/), "another tokenizer");
  fill(asked.getByLabelText(/^Type to-reset to confirm/), "to-reset");
  fireEvent.click(asked.getByRole("button", { name: "Reset" }));
  await waitFor(() => expect(server.bodies("POST", "/api/v1/runs/to-reset/reset")).toEqual([{ reason: "another tokenizer" }]));
});

it("takes a reason before a pause, and shows it", async () => {
  const server = serverFor();
  addRun(server, runOf("explained"));
  server.on("POST", "/api/v1/runs/{run}/pause", ({ body }) =>
    addRun(server, runOf("explained", { status: "paused", allowed_verbs: ["resume"], status_reason: body.reason as string })),
  );
  await load("/runs/explained");
  await press("More actions");
  fireEvent.click(await screen.findByRole("menuitem", { name: "Pause with a reason…" }));
  const asked = await dialog("Pause explained?");
  fill(asked.getByLabelText("Reason"), "the disk is swapped");
  fireEvent.click(asked.getByRole("button", { name: "Pause" }));
  await one("[data-status=paused]");
  expect(server.bodies("POST", "/api/v1/runs/explained/pause")).toEqual([{ reason: "the disk is swapped" }]);
  expect(await screen.findByText("“the disk is swapped”")).toBeVisible();
});

it("edits the tags of a run in its header", async () => {
  const server = serverFor();
  addRun(server, runOf("labelled"));
  server
    .on("GET", "/api/v1/run-filter/values", { results: [], next: null })
    .on("PUT", "/api/v1/runs/{run}/tags", ({ body }) => addRun(server, runOf("labelled", { tags: body.tags as string[] })));
  const user = await load("/runs/labelled");
  await press("More actions");
  fireEvent.click(await screen.findByRole("menuitem", { name: "Add tags" }));
  const asked = await dialog("Tags of labelled");
  await user.type(asked.getByLabelText("Tags"), "header-tag{Enter}");
  fill(asked.getByLabelText("Reason"), "to find it again");
  fireEvent.click(asked.getByRole("button", { name: "Save" }));
  expect(await screen.findByRole("link", { name: "header-tag" })).toBeVisible();
  expect(server.bodies("PUT", "/api/v1/runs/labelled/tags")).toEqual([{ tags: ["header-tag"], reason: "to find it again" }]);
});

it("copies a link to its view", async () => {
  addRun(serverFor(), runOf("linked"));
  await load("/runs/linked");
  await press("More actions");
  fireEvent.click(await screen.findByText("Copy link"));
  expect(await screen.findByText("Link copied")).toBeInTheDocument();
});

it("lists what changed the state or the settings of a run, with reasons", async () => {
  const server = serverFor();
  addRun(server, runOf("changed"));
  const at = new Date().toISOString();
  const changed: RunEvent = {
    id: 3,
    at,
    kind: "settings_changed",
    level: "info",
    actor: "user:ada",
    message: "max_staleness 4 → none",
    details: {},
    reason: "it was better before",
    request_id: "",
  };
  server.on("GET", "/api/v1/runs/{run}/events", { results: [changed], next: null });
  await load("/runs/changed/config");
  expect(await one("[data-event=settings_changed]")).toHaveTextContent("max_staleness 4 → none user:ada“it was better before”");
  const [asked] = server.asked.filter(({ path }) => path.endsWith("/events"));
  expect(asked?.query.get("kinds")).toContain("settings_changed");
});

it("changes the weight of an environment and mutes another", async () => {
  const now = new Date().toISOString();
  let environments = ["gsm8k_0", "gsm8k_1"].map((wandb_name, env_id) => ({
    env_id,
    desired_name: "gsm8k",
    wandb_name,
    spec: "",
    weight: 1,
    max_token_length: 64,
    group_size: 2,
    min_batch_allocation: null,
    connected: true,
    muted: false,
    refused: {},
    numbers: 0,
    ignored_numbers: {},
    held_at: null,
    registered_at: now,
    last_seen_at: now,
  }));
  const counts = { accepted: 0, queued: 0, waiting: 0, leased: 0, served: 0, quarantined: 0, dropped: {}, balanced: true };
  const server = serverFor();
  addRun(server, runOf("mix"));
  server
    .on("GET", "/api/v1/runs/{run}/environments", () => ({ results: environments, next: null }))
    .on("GET", "/api/v1/runs/{run}/mixing", { environments: [] } as unknown as AnswerTo<"GET", "/api/v1/runs/{run}/mixing">)
    .on("GET", "/api/v1/runs/{run}/environments/push-rates", { results: [], next: null } as AnswerTo<
      "GET",
      "/api/v1/runs/{run}/environments/push-rates"
    >)
    .on("GET", "/api/v1/runs/{run}/ledger", {
      groups: counts,
      fragments: counts,
      sequences: counts,
      expired: 0,
      truncated: 0,
      ...NO_LOSSES,
      refused: 0,
      problem: "",
      environments: [],
      audited_at: null,
    })
    .on("PATCH", "/api/v1/runs/{run}/environments/{env_id}", ({ path, body }) => {
      const id = Number(path.split("/").at(-1));
      const { reason: _reason, ...change } = body;
      environments = environments.map((one) => (one.env_id === id ? { ...one, ...change } : one));
      return environments[id] as (typeof environments)[number];
    });
  await load("/runs/mix/environments");
  const row = within(await one("[data-environment=gsm8k_0]"));
  fireEvent.click(row.getByRole("button", { name: /^Change the weight of gsm8k_0/ }));
  let asked = await dialog("Weight of gsm8k_0");
  fill(asked.getByLabelText("Weight"), "4.5");
  fill(asked.getByLabelText("Reason"), "it learns most");
  fireEvent.click(asked.getByRole("button", { name: "Change" }));
  expect(await row.findByRole("button", { name: /^Change the weight of gsm8k_0, now 4.5/ })).toBeVisible();
  expect(server.bodies("PATCH", "/api/v1/runs/mix/environments/0")).toEqual([{ weight: 4.5, reason: "it learns most" }]);

  const muted = await one("[data-environment=gsm8k_1]");
  fireEvent.click(within(muted).getByRole("button", { name: /^Mute/ }));
  asked = await dialog("Mute gsm8k_1");
  expect(asked.getByText(/no trainer receives it/)).toBeVisible();
  fill(asked.getByLabelText("Reason"), "it rewards nonsense");
  fireEvent.click(asked.getByRole("button", { name: "Mute" }));
  await waitFor(() => expect(muted).toHaveTextContent("muted"));
  expect(server.bodies("PATCH", "/api/v1/runs/mix/environments/1")).toEqual([{ muted: true, reason: "it rewards nonsense" }]);
});

it("changes limits on the queue page, with a reason", async () => {
  const counts = { accepted: 0, queued: 0, waiting: 0, leased: 0, served: 0, quarantined: 0, dropped: {}, balanced: true };
  const ledger = { groups: counts, fragments: counts, sequences: counts, expired: 0, truncated: 0, ...NO_LOSSES, refused: 0, problem: "" };
  const gate = (tolerance: number) => ({
    rule: "tolerance" as const,
    condition: `queued > ${tolerance} × batch = ${tolerance} × 32`,
    amount: 0,
    limit: 32 * tolerance,
    closed: false,
    reopens_after: 0,
  });
  const queue = (tolerance: number): AnswerTo<"GET", "/api/v1/runs/{run}/queue"> => ({
    at: new Date().toISOString(),
    unit: "sequences",
    queued: 0,
    queued_sequences: 0,
    waiting: 0,
    leased: 0,
    leased_sequences: 0,
    size_bytes: 0,
    batch_size: 32,
    threshold: 96,
    resume_at: 48,
    paused: false,
    gates: [gate(tolerance)],
    since: null,
    set_by: null,
    trained_per_second: null,
    resumes_in_seconds: null,
    environments: [],
    served_steps: 0,
    ledger,
    next_batch: null,
  });
  const server = serverFor();
  addRun(server, runOf("far", { batch_size: 32 }));
  server.on("GET", "/api/v1/runs/{run}/queue", queue(3)).on("PATCH", "/api/v1/runs/{run}", ({ body }) => {
    const off_policy_tolerance = (body.off_policy_tolerance as number | undefined) ?? 7.5;
    server.on("GET", "/api/v1/runs/{run}/queue", queue(off_policy_tolerance));
    return addRun(server, runOf("far", { batch_size: 32, off_policy_tolerance }));
  });
  await load("/runs/far/queue");
  await press("Change limits");
  const asked = await dialog("Limits of far");
  expect(asked.getByRole("button", { name: "Change" })).toBeDisabled();
  fill(asked.getByLabelText(/^Tolerance/), "7.5");
  fill(asked.getByLabelText("Reason"), "the trainer is far away");
  fireEvent.click(asked.getByRole("button", { name: "Change" }));
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  const panel = screen.getByRole("region", { name: /Producers paused|Backpressure/ });
  await waitFor(() => expect(panel).toHaveTextContent("7.5 ×"));
  expect(server.bodies("PATCH", "/api/v1/runs/far")).toEqual([{ off_policy_tolerance: 7.5, reason: "the trainer is far away" }]);

  await press("Change limits");
  const again = await dialog("Limits of far");
  const registration = again.getByLabelText("Second registration");
  expect(registration).toHaveValue("keep");
  expect(again.getByText(/when a stock trainer registers again/)).toBeVisible();
  fireEvent.change(registration, { target: { value: "reset" } });
  fill(again.getByLabelText("Reason"), "each training is a run");
  fireEvent.click(again.getByRole("button", { name: "Change" }));
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  expect(server.bodies("PATCH", "/api/v1/runs/far")[1]).toEqual({
    on_second_registration: "reset",
    reason: "each training is a run",
  });
});

it("stores notes as Markdown without HTML, and refuses to overwrite an edit that was not shown", async () => {
  const server = serverFor();
  addRun(server, runOf("noted"));
  const texts: string[] = [];
  const changed = new Refusal({ status: 409, code: "notes_changed", detail: "the notes are at revision 2 by user:ada" });
  const notes = (): AnswerTo<"GET", "/api/v1/runs/{run}/notes"> => ({
    text: texts.at(-1) ?? "",
    revision: texts.length,
    author: "user:ada",
    at: texts.length ? new Date().toISOString() : null,
  });
  server
    .on("GET", "/api/v1/alerts", { results: [], next: null, summary: summaryOf() })
    .on("GET", "/api/v1/runs/{run}/notes", notes)
    .on("PUT", "/api/v1/runs/{run}/notes", ({ body }) => {
      if (body.revision !== texts.length) return changed;
      texts.push(String(body.text));
      return notes();
    });
  await load("/runs/noted");
  const open = async () => within(await screen.findByRole("region", { name: "Notes" }));
  let panel = await open();
  fireEvent.click(await panel.findByRole("button", { name: "Add notes" }));
  const hostile = `<img src=x onerror="document.title='owned'"> [go](javascript:alert(1))`;
  fill(panel.getByLabelText("Notes", { selector: "textarea" }), `**good** until step 80\n\n${hostile} ![p](https://x.test/p)`);
  fireEvent.click(panel.getByRole("button", { name: "Save notes" }));
  await panel.findByRole("button", { name: "Edit notes" });

  const shown = await one("[data-markdown]");
  expect(shown.querySelector("strong")).toHaveTextContent("good");
  expect(shown.querySelector("img")).toBeNull();
  expect(shown).toHaveTextContent("<img src=x");
  expect(within(shown).getByText("go").getAttribute("href") || "").toBe("");
  expect(document.title).not.toBe("owned");

  // A save over another edit is refused; the text survives a reload as a draft, and then replaces the other.
  fireEvent.click(panel.getByRole("button", { name: "Edit notes" }));
  fill(panel.getByLabelText("Notes", { selector: "textarea" }), "mine");
  texts.push("theirs");
  await load("/runs/noted");
  panel = await open();
  fireEvent.click(await panel.findByRole("button", { name: "Save notes" }));
  expect(await one("[data-conflict]")).toHaveTextContent("ada has saved another text");
  expect(panel.getByLabelText("Their text")).toHaveTextContent("theirs");
  fireEvent.click(panel.getByRole("button", { name: "Save notes" }));
  await panel.findByRole("button", { name: "Edit notes" });
  expect(await one("[data-markdown]")).toHaveTextContent("mine");
  expect(server.bodies("PUT", "/api/v1/runs/noted/notes").map(({ revision }) => revision)).toEqual([0, 1, 2]);
  await heading("noted", 1);
});

it("selects a longer time range with a key, which is part of the address", async () => {
  const server = serverFor();
  addRun(server, runOf("pole", { kind: "fleet" }));
  server.on("GET", "/api/v1/alerts", { results: [], next: null, summary: summaryOf() });
  const user = await load("/runs/pole");
  expect(await screen.findByLabelText("Time range")).toHaveValue("0");
  await user.keyboard(".");
  await waitFor(() => expect(here()).toBe("/runs/pole?last=900"));
  expect(screen.getByLabelText("Time range")).toHaveValue("900");
  await reload();
  const range = await screen.findByLabelText("Time range");
  expect(range).toHaveValue("900");
  await user.selectOptions(range, "Entire run");
  await waitFor(() => expect(here()).toBe("/runs/pole"));
});

it("disables the actions of a viewer, and gives the reason", async () => {
  addRun(serverFor("viewer"), runOf("only-to-look-at"));
  const user = await load("/runs/only-to-look-at");
  const pause = await screen.findByRole("button", { name: "Pause" });
  expect(pause).toBeDisabled();
  fireEvent.pointerEnter(pause);
  expect(await screen.findByRole("tooltip", { hidden: true })).toHaveTextContent("Requires the operator role");
  await user.keyboard("p");
  expect(screen.queryByRole("dialog")).toBeNull();
});
