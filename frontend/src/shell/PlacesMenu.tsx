import { Menu } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { BookOpen } from "lucide-react";
import type { MenuOf } from "@/components/MenuButton";
import { OpenedMenu } from "@/components/OpenedMenu";
import { addressOfGuide } from "@/guide";
import { MAIN_PAGES } from "@/shell/mainPages";

/** The main pages as a menu, for screens without room for the rail. */
export function PlacesMenu({ target }: MenuOf) {
  return (
    <OpenedMenu target={target} position="bottom-start" width={200}>
      {MAIN_PAGES.map((place) => (
        <Menu.Item key={place.to} component={Link} to={place.to} leftSection={<place.icon size={16} aria-hidden="true" />}>
          {place.label}
        </Menu.Item>
      ))}
      <Menu.Item component="a" href={addressOfGuide("README")} leftSection={<BookOpen size={16} aria-hidden="true" />}>
        Guide
      </Menu.Item>
    </OpenedMenu>
  );
}
