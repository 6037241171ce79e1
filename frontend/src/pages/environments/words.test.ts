import { expect, it } from "vitest";
import type { KnownEnvironment, ProbedEnvironment } from "@/pages/environments/api";
import { kwargsOf, launchCommand, probeText, runName, windowText, worstOf } from "./words";

const known = (given: Partial<KnownEnvironment>): KnownEnvironment => ({
  name: "gymnasium:CartPole-v1",
  kind: "steps",
  runs: 0,
  active_runs: 0,
  last_seen_at: null,
  newest_run: null,
  registered: true,
  denied: null,
  presets: [],
  per_hour: null,
  reward_mean: null,
  zero_variance_share: null,
  examined: 0,
  ...given,
});

it("launches by preset if there is one, else by configuration", () => {
  expect(launchCommand(known({ presets: ["cartpole"] }), { environment: {} }, "http://server")).toBe(
    "rolldeck run create --name cartpole-v1 --preset cartpole",
  );
  expect(launchCommand(known({}), { environment: { spec: "gymnasium:CartPole-v1" } }, "http://server")).toBe(
    "rolldeck run create --name cartpole-v1 --set environment.spec=gymnasium:CartPole-v1",
  );
});

it("launches a lesson by configuration even if a preset contains it", () => {
  const task = known({ name: "task:sort", kind: "tokens", presets: ["curriculum"] });
  expect(launchCommand(task, { language: { lessons: { sort: { spec: "task:sort" } } } }, "http://server")).toContain(
    `--set 'language.lessons={"sort":{"spec":"task:sort"}}'`,
  );
});

it("connects an outside environment to its newest run, with the server's scheme", () => {
  expect(launchCommand(known({ kind: "outside", name: "gsm8k", newest_run: "mix" }), {}, "https://server:8443")).toContain(
    '"https://env:$ROLLDECK_TOKEN@server:8443/atropos/mix"',
  );
});

it("derives a valid run name", () => {
  expect(["module:my_lab.mazes:Maze", "ALE/Pong-v5", "<script>", "‮évil"].map(runName)).toEqual(["maze", "pong-v5", "script", "vil"]);
  expect(runName("💥")).toBe("my-run");
});

it("describes the window and its omissions", () => {
  const page = { results: [], next: null, examined_runs: 10_000, has_older_runs: true, runs_each: 3, groups_each: 300, windows_each: 200 };
  expect(windowText(page)).toContain("runs beyond the newest 10,000 are not counted");
  expect(windowText({ ...page, has_older_runs: false })).not.toContain("beyond");
});

it("searches the worst trajectories by the name that data carries", () => {
  expect(worstOf("steps", "gymnasium:CartPole-v1")).toEqual({ kind: "episode", q: "env:gymnasium:CartPole-v1", sort: "score" });
  expect(worstOf("outside", "math")).toEqual({ q: "env:math", sort: "score" });
  expect(worstOf("tokens", "words:reverse")).toEqual({ q: "env:words:reverse", sort: "score" });
});

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
