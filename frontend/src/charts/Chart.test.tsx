import { MantineProvider } from "@mantine/core";
import { fireEvent, render, screen, waitFor, within } from "@testing-library/react";
import { useState } from "react";
import { expect, it, vi } from "vitest";
import { Chart } from "@/charts/Chart";
import type { ChartProps } from "@/charts/model";
import { type Sharing, SharingContext } from "@/share/focus";
import { withLook } from "@/share/share";
import { Smoothing } from "@/wall/Controls";

const LINES = [{ label: "loss", values: [3, 2, null, -1], role: 1 as const }];

function Page({ opened, copy, chart }: { opened: Sharing["looks"]; copy: () => void; chart: Partial<ChartProps> }) {
  const [looks, setLooks] = useState(opened);
  const setLook = (name: string, look: string | undefined) => setLooks((old) => withLook(old, name, look));
  return (
    <MantineProvider env="test">
      <SharingContext value={{ looks, setLook, copy }}>
        <output>{JSON.stringify(looks)}</output>
        <Chart name="loss" x={[0, 1, 2, 3]} xLabel="train step" isTime={false} lines={LINES} empty="No samples." {...chart} />
      </SharingContext>
    </MantineProvider>
  );
}

function show(chart: Partial<ChartProps> = {}, opened?: Sharing["looks"]) {
  const copy = vi.fn();
  render(<Page opened={opened} copy={copy} chart={chart} />);
  return {
    copy,
    dialog: () => screen.findByRole("dialog", { name: "loss" }),
    looks: () => screen.getByText(/^$|^{/, { selector: "output" }),
  };
}

it("keeps the look of an enlarged chart in the address, and copies a link to it", async () => {
  const { copy, dialog, looks } = show();
  fireEvent.click(screen.getByLabelText("Enlarge loss"));
  const large = within(await dialog());
  fireEvent.change(large.getByLabelText("From"), { target: { value: "-1.5" } });
  await waitFor(() => expect(looks()).toHaveTextContent("from:-1.5"));
  fireEvent.change(large.getByLabelText("To"), { target: { value: "4" } });
  await waitFor(() => expect(looks()).toHaveTextContent("to:4"));
  fireEvent.click(large.getByLabelText("Options of loss"));
  for (const entry of ["Without outliers", "Log x axis", "Copy link"]) fireEvent.click(await screen.findByText(entry));
  expect(looks()).toHaveTextContent('{"loss":"logx,clip,large,from:-1.5,to:4"}');
  expect(copy).toHaveBeenCalledWith("chart:loss");
});

it("opens as in a link, and closes", async () => {
  const { dialog, looks } = show({}, { loss: "log,large,from:1" });
  const large = within(await dialog());
  expect(large.getByLabelText("From")).toHaveValue("1");
  expect(large.getByText("▲ 1 value at or below 0 omitted on the log axis")).toBeVisible();
  fireEvent.keyDown(await dialog(), { key: "Escape" });
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  expect(looks()).toHaveTextContent('{"loss":"log,from:1"}');
});

it("offers other metrics as x axis, once it is enlarged", async () => {
  const { dialog, looks } = show({ xChoices: ["kl", "tokens"] });
  fireEvent.click(screen.getByLabelText("Enlarge loss"));
  fireEvent.click(within(await dialog()).getByRole("combobox", { name: "X axis" }));
  fireEvent.click(await screen.findByText("tokens"));
  await waitFor(() => expect(looks()).toHaveTextContent('{"loss":"large,x:tokens"}'));
});

it("keeps hidden lines in the address", () => {
  const lines = [...LINES, { label: "kl", values: [0.5, 0.25, 0.125, null], role: 2 as const }];
  const { looks } = show({ lines }, { loss: "hide:kl" });
  expect(screen.getByRole("button", { name: /kl/, pressed: false })).toBeVisible();
  fireEvent.click(screen.getByRole("button", { name: /kl/ }));
  expect(looks()).toHaveTextContent(/^$/);
});

it("offers no log axis for dates", async () => {
  show({ isTime: true });
  fireEvent.click(screen.getByLabelText("Options of loss"));
  expect(await screen.findByText("Log axis")).toBeVisible();
  expect(screen.queryByText("Log x axis")).toBeNull();
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
