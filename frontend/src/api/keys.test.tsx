import { expect, it } from "vitest";
import { foundRunsQuery, matchingRunsQuery } from "@/api/runs";
import { pointDetailsQuery } from "@/pages/run/metrics/PointDrawer";

it("uses separate query keys for palette and comparison searches of the same text", () => {
  expect(matchingRunsQuery("").queryKey[0]).not.toBe(foundRunsQuery("").queryKey[0]);
});

it("requests points before the run's start and at rounded times", () => {
  const asked = (axis: "elapsed" | "time" | "step", from: number, to: number) =>
    pointDetailsQuery("a", { name: "loss", axis, from, to }).queryKey[2];
  const before = asked("elapsed", -4, -2);
  expect(before).toMatchObject({ x: "elapsed" });
  expect((before as { from: number }).from).toBeLessThan(-4);
  expect((before as { to: number }).to).toBeGreaterThan(-2);
  expect(asked("step", 0, 3)).toMatchObject({ from: 0, to: 3 });
  expect(asked("time", 0, 3)).toMatchObject({ from: 0 });
});
