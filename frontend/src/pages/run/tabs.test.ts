import { expect, test } from "vitest";
import { isAt, TABS, tabGroupsOf } from "@/pages/run/tabs";

const labels = (kind: "fleet" | "language" | "outside") => tabGroupsOf(kind).map(({ label }) => label);

test("a run has at most seven tabs", () => {
  expect(labels("fleet")).toEqual(["Overview", "Charts", "Samples", "Data", "Fleet & logs", "Config"]);
  expect(labels("language")).toEqual(["Overview", "Charts", "Samples", "Curriculum", "Data", "Fleet & logs", "Config"]);
  // A group of one page is that page.
  expect(labels("outside")).toEqual(["Overview", "Charts", "Samples", "Data", "Fleet & logs", "Config"]);
});

test.each([
  ["/runs/pole", "Overview"],
  ["/runs/pole/", "Overview"],
  ["/runs/queue/metrics", "Charts"],
  ["/runs/pole/groups/7", "Samples"],
  ["/runs/pole/transcript", "Samples"],
  ["/runs/metrics/logs", "Logs"],
  ["/runs/groups/queue", "Queue"],
])("%s is on one page, %s", (pathname, label) => {
  expect(TABS.filter((tab) => isAt(tab, pathname)).map((tab) => tab.label)).toEqual([label]);
});
