import { expect, it } from "vitest";
import { ServerClock } from "@/live/connection";

it("estimates the server's clock by the least delayed of the last frames", () => {
  const clock = new ServerClock();
  expect(clock.offset).toBe(0);
  clock.hear(5_000, 100);
  clock.hear(5_080, 110);
  clock.hear(Number.NaN, 110);
  expect(clock.offset).toBe(4_970);
  for (let frame = 0; frame < 12; frame += 1) clock.hear(90_000, 0);
  expect(clock.offset).toBe(90_000);
  clock.hear(90_000, 89_000);
  clock.forget();
  clock.hear(1_000, 0);
  expect(clock.offset).toBe(1_000);
});
