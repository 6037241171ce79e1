import { render, screen, waitFor } from "@testing-library/react";
import { expect, it } from "vitest";
import { useFocusBack } from "@/components/Dialog";

function Dialog() {
  useFocusBack();
  return <input aria-label="Reason" />;
}

function Page({ hasMenu = false, hasDialog = false }) {
  return (
    <>
      <button type="button" id="options">
        Options
      </button>
      {hasMenu && (
        <div role="menu" aria-labelledby="options">
          <button type="button" role="menuitem">
            Alert when…
          </button>
        </div>
      )}
      {hasDialog && <Dialog />}
    </>
  );
}

it.each([
  ["with the menu", [{ hasMenu: true, hasDialog: true }, { hasDialog: true }]],
  ["after the menu", [{}, { hasDialog: true }]],
])("returns the focus to the button of a menu if the dialog opens %s", async (_when, states) => {
  const { rerender } = render(<Page hasMenu />);
  screen.getByRole("menuitem").focus();
  for (const state of states) rerender(<Page {...state} />);
  rerender(<Page />);
  await waitFor(() => expect(screen.getByRole("button", { name: "Options" })).toHaveFocus());
});
