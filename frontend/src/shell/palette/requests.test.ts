import { expect, it } from "vitest";
import { TABS } from "@/pages/run/tabs";
import { MAIN_PAGES } from "@/shell/mainPages";
import { curlOf, pythonOf, requestOf } from "./requests";

it("covers every page and run tab", () => {
  // The guide shows no data of the server.
  for (const { to } of MAIN_PAGES.filter((page) => page.to !== "/guide")) expect(requestOf(to, {}), to).not.toBeNull();
  for (const { to } of TABS) expect(requestOf(to.replace("$name", "pole"), {})?.path, to).toMatch(/^\/api\/v1\/runs\/pole/);
});

it("requests only the shown data", () => {
  expect(requestOf("/runs", { q: "state:running tag:a", columns: "x" })).toEqual({
    path: "/api/v1/runs",
    query: { q: "state:running tag:a" },
  });
  expect(requestOf("/audit", { kind: "created", people: "1" })?.query).toEqual({ kind: "created", people: "1" });
  expect(requestOf("/runs/pole/groups/12", {})?.path).toBe("/api/v1/runs/pole/groups/12");
  expect(requestOf("/runs/pole/fragments/7", {})?.path).toBe("/api/v1/runs/pole/fragments/7");
  expect(requestOf("/projects/poles", { q: "a" })).toEqual({ path: "/api/v1/projects/poles", query: {} });
  expect(requestOf("/compare", { runs: "a,b" })).toEqual({ path: "/api/v1/prompts", query: { runs: "a,b" } });
});

it("is null for pages without a single request", () => {
  expect(requestOf("/compare", {})).toBeNull();
  expect(requestOf("/runs/pole/nowhere", {})).toBeNull();
  expect(requestOf("/login", {})).toBeNull();
});

it("escapes curl and Python code", () => {
  const request = { path: "/api/v1/runs", query: { q: 'tag:a\'b "c"' } };
  expect(curlOf(request, "http://server")).toBe(
    `curl -H "Authorization: Bearer $ROLLDECK_TOKEN" 'http://server/api/v1/runs?q=tag%3Aa%27b+%22c%22'`,
  );
  expect(pythonOf(request, "http://server").split("\n")[2]).toBe(
    'request = urllib.request.Request("http://server/api/v1/runs?q=tag%3Aa%27b+%22c%22")',
  );
});
