import { MantineProvider } from "@mantine/core";
import { render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, it, vi } from "vitest";
import { type Column, DataTable, sorted } from "./DataTable";

type Row = { name: string; rate: number | null };
const ROWS: Row[] = [
  { name: "worker 10", rate: 3 },
  { name: "Worker 2", rate: null },
  { name: "worker 1", rate: 7 },
];
const COLUMNS: Column<Row>[] = [
  { id: "name", label: "Name", cell: ({ name }) => name, value: ({ name }) => name },
  { id: "rate", label: "Rate", isNumber: true, cell: ({ rate }) => rate ?? "–", value: ({ rate }) => rate },
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

it("draws only the visible rows of a long table", async () => {
  vi.spyOn(Element.prototype, "clientHeight", "get").mockReturnValue(600);
  const rows = Array.from({ length: 1_000 }, (_, at) => ({ name: `worker ${at}`, rate: at }));
  const table = (rowHeight?: number) => (
    <MantineProvider>
      <DataTable label="Workers" rows={rows} columns={COLUMNS} keyOf={({ name }) => name} rowHeight={rowHeight} />
    </MantineProvider>
  );
  const { rerender } = render(table(34));
  expect(await screen.findByText("worker 0")).toBeInTheDocument();
  expect(screen.getAllByRole("row").length).toBeLessThan(100);
  rerender(table());
  expect(screen.getAllByRole("row")).toHaveLength(1_001);
  vi.restoreAllMocks();
});

it("selects rows one by one or all", async () => {
  const chosen: [string[], boolean][] = [];
  const selection = {
    chosen: new Set(["worker 1"]),
    labelOf: ({ name }: Row) => `Select ${name}`,
    all: "Select all",
    onChoose: (keys: string[], isOn: boolean) => void chosen.push([keys, isOn]),
  };
  render(
    <MantineProvider>
      <DataTable label="Workers" rows={ROWS} columns={COLUMNS} keyOf={({ name }) => name} selection={selection} />
    </MantineProvider>,
  );
  const user = userEvent.setup();
  expect(screen.getByRole("checkbox", { name: "Select worker 1" })).toBeChecked();
  await user.click(screen.getByRole("checkbox", { name: "Select worker 1" }));
  await user.click(screen.getByRole("checkbox", { name: "Select all" }));
  expect(chosen).toEqual([
    [["worker 1"], false],
    [["worker 10", "Worker 2", "worker 1"], true],
  ]);
});

it("leaves the order to the server where it has one", async () => {
  const asked: string[] = [];
  const columns: Column<Row>[] = [
    { label: "Rate", sort: "rate" },
    { label: "Name", value: ({ name }) => name },
  ];
  render(
    <MantineProvider>
      <DataTable
        label="Workers"
        rows={ROWS}
        columns={columns}
        keyOf={({ name }) => name}
        order="-rate"
        onOrder={(column) => asked.push(column)}
      />
    </MantineProvider>,
  );
  expect(screen.getByRole("columnheader", { name: "Rate" })).toHaveAttribute("aria-sort", "descending");
  await userEvent.setup().click(screen.getByRole("button", { name: "Rate" }));
  expect(asked).toEqual(["rate"]);
  expect(screen.queryByRole("button", { name: "Name" })).toBeNull();
});
