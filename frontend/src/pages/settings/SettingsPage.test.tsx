import { fireEvent, screen, waitFor, within } from "@testing-library/react";
import { expect, it } from "vitest";
import { fill, load, one, serverFor } from "@/testing/page";
import { Refusal } from "@/testing/server";

const group = async (name: string) => within(await screen.findByRole("radiogroup", { name }));
const choose = async (name: string, choice: string) => fireEvent.click((await group(name)).getByLabelText(choice));

it("applies settings to every page, also after a reload", async () => {
  serverFor("operator");
  await load("/settings");
  await choose("Time zone", "UTC");
  const hour = new Date().getUTCHours();
  expect([hour, (hour + 1) % 24]).toContain(Number((await one("[data-clock]")).textContent?.slice(0, 2)));

  await load("/settings");
  expect((await group("Time zone")).getByLabelText("UTC")).toBeChecked();
});

it("shows a failed test of a webhook, which a viewer cannot repeat", async () => {
  const now = new Date().toISOString();
  const last_test = {
    id: 1,
    change: "test" as const,
    target: "hooks.test",
    state: "given up" as const,
    created_at: now,
    attempts: 1,
    next_attempt_at: now,
    last_status: 503,
    last_error: "HTTP 503",
    last_took_ms: 12,
    settled_at: now,
  };
  serverFor("viewer").on("GET", "/api/v1/webhooks", {
    results: [{ id: "a", channel: "webhook", target: "hooks.test", is_signed: true, least_severity: "warning", last_test }],
    next: null,
  });
  await load("/settings");
  const row = await one("[data-webhook='a']");
  expect(row.querySelector("[data-delivery='given up']")).toBeVisible();
  expect(row).toHaveTextContent("HTTP 503");
  expect(within(row).getByRole("button", { name: /^Test/ })).toBeDisabled();
});

it("changes the user's password, after a weak one was refused", async () => {
  const about = { version: "0", deployment: "", colour: "info", auth: "required", time_zone: "UTC", has_password: true } as const;
  const weak = { status: 400, code: "invalid", detail: "too short", errors: [{ field: "new_password", message: "Too short." }] };
  const server = serverFor("viewer")
    .on("GET", "/api/v1/server", about)
    .on("GET", "/api/v1/sessions", { sessions: 2 })
    .on("PUT", "/api/v1/session/password", ({ body }) =>
      body.new_password === "short" ? new Refusal(weak) : { authenticated: true, username: "ada", role: "viewer" },
    );
  const user = await load("/settings");
  await user.click(await screen.findByRole("button", { name: "Change password" }));
  const form = within(await screen.findByRole("dialog"));
  const submit = () => user.click(form.getByRole("button", { name: "Change password" }));
  fill(form.getByLabelText(/^Current password/), "old");
  fill(form.getByLabelText(/^New password/), "short");
  await submit();
  expect(await form.findByText("Too short.")).toBeVisible();

  fill(form.getByLabelText(/^New password/), "long enough now");
  await submit();
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  const changes = server.asked.filter(({ verb }) => verb === "PUT").map(({ body }) => body);
  expect(changes.at(-1)).toEqual({ current_password: "old", new_password: "long enough now" });
});
