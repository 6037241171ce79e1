import { MantineProvider } from "@mantine/core";
import { fireEvent, render, screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, it } from "vitest";
import { Hint } from "@/components/inline";
import { OpenedMenu } from "@/components/OpenedMenu";
import { MenuButton, type MenuOf, onDemand } from "@/components/onDemand";

const shown = () => screen.queryByRole("tooltip", { hidden: true });

function hinted() {
  render(
    <MantineProvider env="test">
      <Hint label="Three workers">
        <button type="button">3</button>
      </Hint>
    </MantineProvider>,
  );
  return screen.getByText("3");
}

it("shows a hint to the pointer, names it as description, and hides it on leave", async () => {
  const button = hinted();
  fireEvent.pointerEnter(button);
  await waitFor(() => expect(shown()).toHaveTextContent("Three workers"));
  expect(button).toHaveAccessibleDescription("Three workers");
  fireEvent.pointerLeave(button);
  await waitFor(() => expect(shown()).toBeNull());
});

it("shows a hint to the keyboard, and hides it with Escape", async () => {
  hinted();
  const user = userEvent.setup();
  await user.tab();
  await waitFor(() => expect(shown()).toHaveTextContent("Three workers"));
  await user.keyboard("{Escape}");
  await waitFor(() => expect(shown()).toBeNull());
});

it("shows no hint when the pointer leaves before the delay", async () => {
  const button = hinted();
  fireEvent.pointerEnter(button);
  fireEvent.pointerLeave(button);
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect(shown()).toBeNull();
});

const Colours = onDemand(
  async () => ({
    Colours: ({ target, colours }: MenuOf & { colours: string[] }) => (
      <OpenedMenu target={target}>
        {colours.map((colour) => (
          <p key={colour}>{colour}</p>
        ))}
      </OpenedMenu>
    ),
  }),
  "Colours",
);

it("loads and opens a menu on the first click, and returns the focus to its button", async () => {
  render(
    <MantineProvider env="test">
      <MenuButton menu={Colours} target={<button type="button">Colour</button>} colours={["red", "blue"]} />
    </MantineProvider>,
  );
  const user = userEvent.setup();
  expect(screen.getByText("Colour")).toHaveAttribute("aria-haspopup", "menu");
  await user.click(screen.getByText("Colour"));
  await waitFor(() => expect(screen.getByText("blue")).toBeVisible());
  await user.keyboard("{Escape}");
  await waitFor(() => expect(screen.queryByText("blue")).toBeNull());
  expect(screen.getByText("Colour")).toHaveFocus();
  await user.click(screen.getByText("Colour"));
  await waitFor(() => expect(screen.getByText("red")).toBeVisible());
});
