import { screen, waitFor, within } from "@testing-library/react";
import { expect, it } from "vitest";
import type { EpisodeDetail, FragmentDetail, StepWindow } from "@/api/groups";
import { here, load, serverFor } from "@/testing/page";
import { addRun, runOf } from "@/testing/runs";
import type { Server } from "@/testing/server";

const line = (values: number[]) => ({ last: values, low: values, high: values });
const curvesOf = (rewards: number[]) => ({
  step: rewards.map((_, step) => step),
  is_exact: true,
  total: line(rewards.map((_, step) => rewards.slice(0, step + 1).reduce((sum, one) => sum + one, 0))),
  reward: line(rewards),
  value: line(rewards.map((one) => 10 * one)),
  info: [{ key: "cost", ...line(rewards.map((one) => one / 2)) }],
});

const AT = new Date().toISOString();
const SOURCE = { slot: "w0-3@a", environment: "CartPole-v1", worker: "w0@a", epoch: 1, version_min: 4, version_max: 5 };
const FRAGMENT: FragmentDetail = {
  fragment: {
    ...SOURCE,
    id: 7,
    number: 2,
    contiguous: true,
    steps: 4,
    state: "served",
    drop_reason: "",
    batch: null,
    step: 9,
    uses: 0,
    received_at: AT,
    size_bytes: 100,
    has_bytes: true,
    reward_sum: 4,
  },
  content: {
    steps: 4,
    real_steps: 4,
    reward_sum: 4,
    episodes_left_out: 0,
    arrays: [],
    curves: curvesOf([1, 1, 1, 1]),
    episodes: [
      { id: "w0-3@a/8", first: 0, steps: 3, reward: 3, begins: false, outcome: "terminated" },
      { id: "w0-3@a/9", first: 3, steps: 1, reward: 1, begins: true, outcome: "" },
    ],
  },
  problem: "",
  version: null,
  before: null,
  after: 8,
};
const part = (fragment: number, number: number, first: number, steps: number) => ({
  fragment,
  number,
  first,
  steps,
  total: 4,
  reward: steps,
  epoch: 1,
  version_min: 4,
  version_max: 5,
  state: "served",
  drop_reason: "",
  batch: null,
  step: 9,
  received_at: AT,
});
const EPISODE: EpisodeDetail = {
  id: "w0-3@a/8",
  slot: SOURCE.slot,
  environment: SOURCE.environment,
  worker: SOURCE.worker,
  steps: 5,
  total_return: 5,
  begins: true,
  outcome: "terminated",
  is_partial: false,
  parts: [part(6, 1, 2, 2), part(7, 2, 0, 3)],
  curves: curvesOf([1, 1, 1, 1, 1]),
};

const WINDOW: StepWindow = {
  start: 0,
  total: 4,
  action: [[0], [1], [0], [1]],
  action_size: 1,
  obs: [[1], [2], [3], [4]],
  obs_size: 1,
  obs_range: [],
  reward: [1, 1, 1, 1],
  info: [{ key: "cost", values: [0.5, null, 2, 3] }],
  value: [10, 10, 10, 10],
  logprob: [0, 0, 0, 0],
  first: [false, false, false, true],
  terminated: [false, false, true, false],
  truncated: [false, false, false, false],
  is_padding: [false, false, false, false],
  policy_step: [4, 4, 5, 5],
  episode: [0, 0, 0, 1],
};

function read(): Server {
  const server = serverFor();
  addRun(server, runOf("alpha"));
  return server
    .on("GET", "/api/v1/runs/{run}/fragments/{fragment}", FRAGMENT)
    .on("GET", "/api/v1/runs/{run}/fragments/{fragment}/steps", WINDOW)
    .on("GET", "/api/v1/runs/{run}/episodes/detail", EPISODE);
}

const step = () => screen.findByRole("region", { name: "Step" });

it("shows a fragment as curves, and one step with its action and observation", async () => {
  const server = read();
  const user = await load("/runs/alpha/fragments/7?episode=w0-3@a/8");
  for (const name of ["Return", "Reward", "Value", "info.cost"]) await screen.findByRole("heading", { name });
  const episodes = screen.getByRole("table", { name: "Episodes" });
  expect(within(episodes).getByText("continues, terminated").closest("tr")).toHaveAttribute("aria-current", "true");
  const shown = await step();
  await waitFor(() => expect(shown).toHaveTextContent("Action0Reward1info.cost0.5Value10Logprob0Policy4Observation1"));
  await user.click(within(episodes).getByRole("button", { name: /3 – 3$/ }));
  await waitFor(() => expect(here()).toContain("step=3"));
  expect(shown).toHaveTextContent("Action1Reward1info.cost3Value10Logprob0Policy5EpisodebeginsObservation4");
  expect(server.asked.filter(({ path }) => path.endsWith("/episodes/detail"))).toEqual([]);
  expect(server.asked.filter(({ path }) => path.endsWith("/steps"))).toHaveLength(1);
});

it("goes to steps by arrow keys, and to the fragment beside", async () => {
  read();
  const user = await load("/runs/alpha/fragments/7");
  await screen.findByRole("heading", { name: "Value" });
  const slider = within(await step()).getByRole("slider", { name: "Step" });
  slider.focus();
  await user.keyboard("{ArrowRight}{ArrowRight}");
  await waitFor(() => expect(here()).toContain("step=2"));
  expect(await step()).toHaveTextContent("Episodeterminated");
  await user.keyboard("{End}");
  await waitFor(() => expect(here()).toContain("step=3"));
  await user.keyboard("]");
  await waitFor(() => expect(here()).toContain("/fragments/8"));
});

it("shows an episode over its fragments in the same reader", async () => {
  read();
  const user = await load("/runs/alpha/transcript?episode=w0-3@a/8");
  for (const name of ["Return", "Reward", "Value", "info.cost"]) await screen.findByRole("heading", { name });
  const fragments = screen.getByRole("table", { name: "Fragments" });
  expect(within(fragments).getByRole("button", { name: /0 – 1$/ })).toBeVisible();
  const link = within(fragments).getByRole("link", { name: "Fragment 2" });
  expect(link).toHaveAttribute("href", "/runs/alpha/fragments/7?step=0&episode=w0-3%40a%2F8");
  await user.click(within(fragments).getByRole("button", { name: /2 – 4$/ }));
  await waitFor(() => expect(here()).toContain("step=2"));
  expect(await step()).toHaveTextContent("2 of 0 – 4");
});

it("opens the step of a link, with its fragment", async () => {
  read();
  await load("/runs/alpha/transcript?episode=w0-3@a/8&step=4");
  await screen.findByRole("heading", { name: "Value" });
  expect(await step()).toHaveTextContent("Policy5EpisodeterminatedObservation3Fragment2");
});
