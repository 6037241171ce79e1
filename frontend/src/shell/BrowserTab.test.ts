import { expect, it } from "vitest";
import { markOf, titleOf } from "@/shell/BrowserTab";

it("names each page, most specific first", () => {
  expect(titleOf("/runs/new")).toBe("Launch · Rolldeck");
  expect(titleOf("/compare")).toBe("Compare · Rolldeck");
  expect(titleOf("/trajectories")).toBe("Samples · Rolldeck");
  expect(titleOf("/runs/my-run/transcript")).toBe("Episode · my-run · Rolldeck");
  expect(titleOf("/runs/my-run")).toBe("my-run · Rolldeck");
  expect(titleOf("/runs/my-run/queue")).toBe("Queue · my-run · Rolldeck");
  expect(titleOf("/runs/my-run/groups/17")).toBe("Group 17 · my-run · Rolldeck");
});

it("handles any name and malformed URLs", () => {
  expect(titleOf("/runs/a%20%E2%80%AEb")).toBe("a ⟨U+202E⟩b · Rolldeck");
  expect(titleOf("/runs/%E0%A4%A")).toBe("%E0%A4%A · Rolldeck");
  expect(titleOf("/no/such/page")).toBe("Rolldeck");
});

it("shows open errors in title and icon", () => {
  expect(titleOf("/runs", 2)).toBe("(2) Runs · Rolldeck");
  expect(markOf("live", 2)).toBe("mark-alert.svg");
  expect(markOf("live", 0)).toBe("mark.svg");
  expect(markOf("polling", 2)).toBe("mark-away.svg");
});
