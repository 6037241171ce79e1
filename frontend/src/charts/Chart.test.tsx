import { MantineProvider } from "@mantine/core";
import { fireEvent, render, screen, waitFor, within } from "@testing-library/react";
import { expect, it, vi } from "vitest";
import { Chart } from "@/charts/Chart";
import { Smoothing } from "@/charts/Smoothing";
import { type Sharing, SharingContext } from "@/share/focus";

const LINES = [{ label: "loss", values: [3, 2, null, -1], role: 1 as const }];

function show(more: Partial<Parameters<typeof Chart>[0]> = {}, opened: Sharing["opened"] = {}) {
  const copy = vi.fn();
  render(
    <MantineProvider env="test">
      <SharingContext value={{ opened, copy }}>
        <Chart name="loss" x={[0, 1, 2, 3]} xLabel="train step" isTime={false} lines={LINES} empty="No samples." {...more} />
      </SharingContext>
    </MantineProvider>,
  );
  return { copy, dialog: () => screen.findByRole("dialog", { name: "loss" }) };
}

it("opens an enlarged chart with its axes, which a link keeps", async () => {
  const { copy, dialog } = show();
  fireEvent.click(screen.getByLabelText("Enlarge loss"));
  const large = within(await dialog());
  fireEvent.change(large.getByLabelText("From"), { target: { value: "-1.5" } });
  fireEvent.change(large.getByLabelText("To"), { target: { value: "4" } });
  fireEvent.click(large.getByLabelText("Without outliers"));
  fireEvent.click(large.getByLabelText("Log x axis"));
  fireEvent.click(large.getByLabelText("Options of loss"));
  fireEvent.click(await screen.findByText("Copy link"));
  expect(copy).toHaveBeenCalledWith({ focus: "chart:loss", hide: undefined, scale: "logx,clip,large,from:-1.5,to:4" });
});

it("opens as in a link, and closes", async () => {
  const { dialog } = show({}, { focus: "chart:loss", scale: "log,large,from:1" });
  const large = within(await dialog());
  expect(large.getByLabelText("From")).toHaveValue("1");
  expect(large.getByLabelText("Log y axis")).toBeChecked();
  expect(large.getByText("▲ 1 value at or below 0 omitted on the log axis")).toBeVisible();
  fireEvent.keyDown(await dialog(), { key: "Escape" });
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
});

it("changes the log axis of the page where the page owns it", async () => {
  const change = vi.fn();
  const { dialog } = show({ isLog: { value: false, change } });
  fireEvent.click(screen.getByLabelText("Enlarge loss"));
  fireEvent.click(within(await dialog()).getByLabelText("Log y axis"));
  expect(change).toHaveBeenCalledWith(true);
});

it("offers no log axis for dates", async () => {
  const { dialog } = show({ isTime: true });
  fireEvent.click(screen.getByLabelText("Enlarge loss"));
  expect(within(await dialog()).queryByLabelText("Log x axis")).toBeNull();
});

it.each([
  ["no points", { x: [], lines: [{ ...LINES[0], values: [] }] }, "No samples."],
  ["only values that are no numbers", { x: [1], lines: [{ ...LINES[0], values: [null] }] }, "No samples."],
] as const)("shows %s as empty", (_name, data, text) => {
  show(data as never);
  expect(screen.getByText(text)).toBeVisible();
});

it("shows the newest value of each line in the legend", () => {
  show({ lines: [...LINES, { label: "kl", values: [0.5, 0.25, 0.125, null], role: 2 }] });
  expect(screen.getByRole("button", { name: /loss/, pressed: true })).toHaveTextContent("loss-1");
  expect(screen.getByRole("button", { name: /kl/ })).toHaveTextContent("kl0.125");
});

it("smooths by keyboard, and reports the weight at the end", () => {
  const onChange = vi.fn();
  render(
    <MantineProvider env="test">
      <Smoothing value={0} onChange={onChange} />
    </MantineProvider>,
  );
  const slider = screen.getByRole("slider", { name: "Smoothing" });
  fireEvent.keyDown(slider, { key: "End" });
  fireEvent.keyUp(slider, { key: "End" });
  expect(onChange).toHaveBeenCalledWith(0.99);
  expect(screen.getByText("Smoothing 0.99")).toBeVisible();
});
