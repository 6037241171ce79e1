import { screen, waitFor } from "@testing-library/react";
import { expect, it } from "vitest";
import { fill, here, load, serverFor } from "@/testing/page";
import { type AnswerTo, Refusal } from "@/testing/server";

type Found = AnswerTo<"GET", "/api/v1/trajectories">;

function rowOf(run: string, score: number): Found["results"][number] {
  return {
    ...{ kind: "group", id: run, run, project: null, environment: "", lesson: "", score, score_min: score, score_max: score },
    ...{ sequences: 2, length: 5, worker: "", policy_step: null, at: new Date().toISOString(), excerpt: "zebras", answer: "" },
  };
}

it("filters by runs and scores, which are part of the address, and names invalid values", async () => {
  const all = [rowOf("searched-one", 0.5), rowOf("searched-two", 0.25)];
  serverFor().on("GET", "/api/v1/trajectories", ({ query }) => {
    const runs = query.get("runs") ?? "";
    if (runs === "colour:red") {
      const message = "at character 1: unknown qualifier 'colour'";
      return new Refusal({ status: 400, code: "invalid", detail: message, errors: [{ field: "runs", message }] });
    }
    const most = Number(query.get("score_max") ?? Infinity);
    const results = all.filter(({ run, score }) => `name:${run}`.startsWith(runs) && (score ?? 0) <= most);
    return { results, next: null, is_partial: false, runs: 2, runs_left_out: 0 };
  });
  await load("/trajectories?q=zebras");
  const rows = () => [...document.querySelectorAll<HTMLElement>("[data-trajectory]")].map(({ dataset }) => dataset.trajectory);
  const both = () => waitFor(() => expect(rows()).toHaveLength(2));
  const type = (label: string, text: string) => fill(screen.getByLabelText(label), text);
  await both();
  type("Runs", "name:searched-one");
  await waitFor(() => expect(rows()).toEqual(["searched-one"]));
  expect(here()).toContain("runs=");
  type("Runs", "");
  await both();
  type("Greatest score", "0.3");
  await waitFor(() => expect(rows()).toEqual(["searched-two"]));
  type("Greatest score", "");
  await both();

  type("Least score", "much");
  expect(await screen.findByText(/must be a number/)).toBeVisible();
  type("Least score", "0.2");
  await waitFor(() => expect(here()).toContain("score_min=0.2"));
  type("Greatest score", "0.1");
  expect(await screen.findByText(/is below the least, 0.2/)).toBeVisible();
  expect(here()).not.toContain("score_max");
  type("Greatest score", "");

  type("Runs", "colour:red");
  expect((await screen.findAllByText(/at character 1: unknown qualifier 'colour'/))[0]).toBeVisible();
});
