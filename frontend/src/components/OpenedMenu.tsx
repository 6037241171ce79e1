import { Menu, type MenuProps } from "@mantine/core";
import { cloneElement, useEffect, useRef, useState } from "react";
import type { MenuOf } from "@/components/onDemand";

/** The state of a menu that a click on its button has loaded: it opens, and gives the focus back to the new button. */
export function useOpened() {
  const [opened, setOpened] = useState(false);
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    button.current?.focus();
    setOpened(true);
  }, []);
  return { opened, setOpened, button };
}

/** A menu that opens when it is mounted. */
export function OpenedMenu({ target, children, ...props }: MenuOf & Omit<MenuProps, "opened" | "onChange">) {
  const { opened, setOpened, button } = useOpened();
  return (
    <Menu {...props} opened={opened} onChange={setOpened}>
      <Menu.Target>{cloneElement(target, { ref: button })}</Menu.Target>
      <Menu.Dropdown>{children}</Menu.Dropdown>
    </Menu>
  );
}
