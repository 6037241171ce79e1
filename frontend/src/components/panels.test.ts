import { expect, it } from "vitest";
import { filled, type Made } from "@/components/panels";

const COMMAND = 'curl http://server/api/v1/runs/a/start -H "Authorization: Bearer $ROLLDECK_TOKEN"';
const made = (given: Partial<Made>): Made => ({ token: "rd_secret", scopes: ["trainer"], run: null, ...given });

it("inserts the token into commands that it fits", () => {
  expect(filled(COMMAND, { scope: "trainer", run: "a" }, made({}))).toContain("Bearer rd_secret");
  expect(filled(COMMAND, { scope: "trainer", run: "a" }, made({ run: "a" }))).toContain("Bearer rd_secret");
  expect(filled(COMMAND, { scope: "user" }, made({ scopes: ["admin"] }))).toContain("Bearer rd_secret");
});

it("leaves commands unchanged without a fitting token", () => {
  expect(filled(COMMAND, { scope: "trainer", run: "a" }, null)).toBe(COMMAND);
  expect(filled(COMMAND, { scope: "trainer", run: "a" }, made({ scopes: ["env"] }))).toBe(COMMAND);
  expect(filled(COMMAND, { scope: "trainer", run: "a" }, made({ run: "b" }))).toBe(COMMAND);
  expect(filled(COMMAND, undefined, made({}))).toBe(COMMAND);
});
