import { expect, it } from "vitest";
import type { ProbedEnvironment } from "@/pages/environments/api";
import { kwargsOf, probeText } from "./probe";

const episode = { steps: 23, ended: "terminated", total_return: 23, rewards: [1, 1], steps_per_second: 5000, outside: "" } as const;
const tried: ProbedEnvironment = {
  spec: "a:b",
  trouble: "",
  is_missing: false,
  seconds: 1,
  observation: "float32 [4]",
  action: "choices 2",
  episode: { ...episode, rewards: [1, 1] },
};

it("accepts an object or empty text as arguments", () => {
  expect(kwargsOf(' {"delay": 4} ').kwargs).toEqual({ delay: 4 });
  expect(kwargsOf("").kwargs).toEqual({});
  for (const typed of ["[1]", "null", "7", "{delay: 4}"]) {
    expect(kwargsOf(typed).kwargs).toBeNull();
    expect(kwargsOf(typed).problem).toContain("{");
  }
});

it("describes the probed episode and its anomalies", () => {
  expect(probeText(tried)).toBe(
    "Observations: float32 [4]; actions: choices 2. One episode: 23 steps, terminated, return 23, 5,000 steps/s.",
  );
  expect(
    probeText({
      ...tried,
      episode: { ...episode, rewards: [], total_return: null, ended: "cut", outside: "an observation was not finite" },
    }),
  ).toContain("a non-finite reward");
  expect(probeText({ ...tried, episode: { ...episode, rewards: [], outside: "an observation was not finite" } })).toContain(
    "▲ an observation was not finite.",
  );
});

it("explains a missing module", () => {
  expect(probeText({ ...tried, trouble: "there is no module 'ale'", is_missing: true, episode: null })).toBe(
    "Probe failed: there is no module 'ale'. It is not installed on the server, but may be on the workers.",
  );
  expect(probeText({ ...tried, trouble: "SystemExit: 3", episode: null })).toBe("Probe failed: SystemExit: 3.");
});
