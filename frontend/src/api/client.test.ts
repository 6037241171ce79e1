import { afterEach, expect, test, vi } from "vitest";
import { api } from "./client";

afterEach(() => {
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

test.each([
  ["csrftoken=abc", "abc"],
  ["theme=dark; __Host-csrftoken=a%20b", "a b"],
  ["othercsrftoken=no", ""],
])("the cookies %s give the CSRF token %j", async (cookies, token) => {
  vi.stubGlobal("document", { cookie: cookies });
  const sent: Request[] = [];
  vi.spyOn(globalThis, "fetch").mockImplementation(async (request) => {
    sent.push(request as Request);
    return new Response("{}", { headers: { "Content-Type": "application/json" } });
  });

  await api.DELETE("/api/v1/session", { baseUrl: "http://localhost", fetch: globalThis.fetch });

  expect(sent.map((request) => request.headers.get("X-CSRFToken"))).toEqual([token]);
});
