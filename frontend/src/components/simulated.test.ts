import { expect, it } from "vitest";
import { servedText, simulatedRunsText, stateText } from "./simulated";

it("marks the state of simulated runs", () => {
  expect(stateText({ status: "running", is_simulated: true })).toBe("running · simulated");
  expect(stateText({ status: "running", is_simulated: false })).toBe("running");
});

it("states whether simulated data is served", () => {
  expect(servedText({ is_simulated: true, serves_simulated: false })).toBe("simulated data is not served to trainers");
  expect(servedText({ is_simulated: true, serves_simulated: true })).toBe("simulated data is served to trainers");
  expect(servedText({ is_simulated: false, serves_simulated: false })).toBe("");
});

it("marks environments by the simulated share of their runs", () => {
  expect(simulatedRunsText({ runs: 3, simulated_runs: 0 })).toBe("");
  expect(simulatedRunsText({ runs: 3, simulated_runs: 3 })).toBe("simulated");
  expect(simulatedRunsText({ runs: 3, simulated_runs: 1 })).toBe("1 of 3 runs simulated");
});
