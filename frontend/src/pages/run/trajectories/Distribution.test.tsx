import { fireEvent, screen, waitFor, within } from "@testing-library/react";
import { expect, it } from "vitest";
import { here, load, serverFor } from "@/testing/page";
import { addRun, runOf } from "@/testing/runs";
import { samplesOf } from "@/testing/samples";
import { Refusal } from "@/testing/server";

const TASK = { counted: 8, mean: 11, p10: 3, p50: 11, p90: 19 };

function fleet(refusal?: Refusal) {
  const asked: URLSearchParams[] = [];
  const server = serverFor();
  addRun(server, runOf("pole", { kind: "fleet" }));
  server
    .on("GET", "/api/v1/trajectories", () => samplesOf([]))
    .on("GET", "/api/v1/trajectories/filter", { results: [], next: null })
    .on("GET", "/api/v1/trajectories/filter/values", { results: [], next: null })
    .on("GET", "/api/v1/runs/{run}/episodes/distribution", ({ query }) => {
      asked.push(query);
      const of = query.get("of") === "length" ? ("length" as const) : ("return" as const);
      const tasks = [
        { ...TASK, task: "Cart Pole", mode: "train" as const },
        { ...TASK, task: "Cart Pole", mode: "eval" as const },
      ];
      return refusal ?? { unit: "episodes" as const, of, least: 0, most: 4, counts: [1, 0, 2, 5], tasks, counted: 8, is_sampled: true };
    });
  return asked;
}

const address = () => new URLSearchParams(here().split("?")[1]);

it("filters the episodes by a bar, by several with Shift, and by an environment", async () => {
  const asked = fleet();
  await load("/runs/pole/trajectories?q=version:>2");
  fireEvent.click(await screen.findByText("Distribution"));
  const spread = within(await screen.findByRole("region", { name: "Distribution" }));
  expect(spread.getByText("a sample of 8 episodes")).toBeVisible();
  fireEvent.click(spread.getByLabelText("2 to 3: 2 episodes"));
  await waitFor(() => expect(address().get("q")).toBe("version:>2 score:>=2 score:<=3"));
  expect(address().get("kind")).toBe("episode");
  fireEvent.click(spread.getByLabelText("3 to 4: 5 episodes"), { shiftKey: true });
  await waitFor(() => expect(address().get("q")).toBe("version:>2 score:>=2 score:<=4"));
  expect(spread.getAllByRole("button", { pressed: true })).toHaveLength(2);

  fireEvent.click(spread.getByText("Cart Pole", { selector: "button" }));
  await waitFor(() => expect(asked.at(-1)?.get("task")).toBe("Cart Pole"));
  expect(address().get("q")).toBe('version:>2 score:>=2 score:<=4 env:"Cart Pole"');
  fireEvent.click(spread.getByText("Length in env steps"));
  await waitFor(() => expect(asked.at(-1)?.get("of")).toBe("length"));
  expect(spread.queryAllByLabelText(/^\d to \d/).map((bar) => bar.getAttribute("aria-pressed"))).not.toContain("true");
});

it("has mean and percentiles by environment", async () => {
  fleet();
  await load("/runs/pole/trajectories?spread=return");
  const row = (await screen.findByText("Cart Pole", { selector: "button" })).closest("tr") as HTMLTableRowElement;
  await waitFor(() => expect([...row.cells].map(({ textContent }) => textContent).slice(1, 6)).toEqual(["8", "11", "3", "11", "19"]));
  expect(screen.getByText("evaluation")).toBeVisible();
});

it("shows the list without a distribution that the server refuses", async () => {
  fleet(new Refusal({ status: 500, code: "error", detail: "the server failed" }));
  await load("/runs/pole/trajectories?spread=return");
  expect(await screen.findByText("Distribution unavailable")).toBeVisible();
  expect(screen.getByLabelText("Filter samples")).toBeVisible();
});
