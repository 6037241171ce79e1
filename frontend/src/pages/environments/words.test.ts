import { expect, it } from "vitest";
import type { KnownEnvironment } from "@/pages/environments/api";
import { launchCommand, runName, windowText, worstOf } from "./words";

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
