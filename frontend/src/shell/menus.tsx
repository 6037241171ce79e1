/** The menus of the header. */

import { Menu, Text, useMantineColorScheme } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { BookOpen } from "lucide-react";
import { useSession, useSignOut } from "@/api/session";
import { OpenedMenu } from "@/components/OpenedMenu";
import type { MenuOf } from "@/components/onDemand";
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

const THEMES = [
  ["auto", "System"],
  ["light", "Light"],
  ["dark", "Dark"],
] as const;

export function UserMenu({ target, onHelp }: MenuOf & { onHelp: () => void }) {
  const session = useSession();
  const signOut = useSignOut();
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  return (
    <OpenedMenu target={target} position="bottom-end" width={230}>
      <Menu.Label>
        {session?.username} · {session?.role}
      </Menu.Label>
      <Menu.Item component="a" href="/admin/">
        Admin
      </Menu.Item>
      <Menu.Item component="a" href="/docs">
        API reference
      </Menu.Item>
      <Menu.Item
        onClick={onHelp}
        rightSection={
          <Text span inherit c="dimmed">
            ?
          </Text>
        }
      >
        Keyboard shortcuts
      </Menu.Item>
      <Menu.Divider />
      <Menu.Label>Theme</Menu.Label>
      <Menu.RadioGroup value={colorScheme} onChange={(value) => setColorScheme(value as typeof colorScheme)}>
        {THEMES.map(([value, text]) => (
          <Menu.RadioItem key={value} value={value} closeMenuOnClick={false}>
            {text}
          </Menu.RadioItem>
        ))}
      </Menu.RadioGroup>
      <Menu.Divider />
      <Menu.Item onClick={() => signOut.mutate()}>Sign out</Menu.Item>
    </OpenedMenu>
  );
}
