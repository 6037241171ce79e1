import { MantineProvider } from "@mantine/core";
import { render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, it } from "vitest";
import { type Column, DataTable, sorted } from "./DataTable";

type Row = { name: string; rate: number | null };
const ROWS: Row[] = [
  { name: "worker 10", rate: 3 },
  { name: "Worker 2", rate: null },
  { name: "worker 1", rate: 7 },
];
const COLUMNS: Column<Row>[] = [
  { id: "name", label: "Name", cell: ({ name }) => name, value: ({ name }) => name },
  { id: "rate", label: "Rate", className: "num", cell: ({ rate }) => rate ?? "–", value: ({ rate }) => rate },
  { id: "act", label: "Actions", cell: () => "…" },
];

it("sorts names with numbers in them, and puts rows without a value last in both directions", () => {
  const names = (rows: Row[]) => rows.map(({ name }) => name.split(" ")[1]);
  expect(names(sorted(ROWS, ({ name }) => name, false))).toEqual(["1", "2", "10"]);
  expect(names(sorted(ROWS, ({ rate }) => rate, true))).toEqual(["1", "10", "2"]);
  expect(names(sorted(ROWS, ({ rate }) => rate, false))).toEqual(["10", "1", "2"]);
});

it("sorts by the heading that is pressed, with the keyboard as well, and returns to the given order", async () => {
  render(
    <MantineProvider>
      <DataTable label="Workers" rows={ROWS} columns={COLUMNS} keyOf={({ name }) => name} />
    </MantineProvider>,
  );
  const first = () => screen.getAllByRole("row")[1];
  const head = screen.getByRole("columnheader", { name: "Rate" });
  const user = userEvent.setup();
  expect(first()).toHaveTextContent("worker 10");
  await user.click(screen.getByRole("button", { name: "Rate" }));
  expect(head).toHaveAttribute("aria-sort", "descending");
  expect(first()).toHaveTextContent("worker 17");
  await user.keyboard("{Enter}");
  expect(head).toHaveAttribute("aria-sort", "ascending");
  expect(first()).toHaveTextContent("worker 103");
  await user.keyboard("{Enter}");
  expect(head).not.toHaveAttribute("aria-sort");
  expect(first()).toHaveTextContent("worker 10");
  expect(screen.queryByRole("button", { name: "Actions" })).toBeNull();
});
