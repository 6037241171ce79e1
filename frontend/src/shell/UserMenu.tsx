import { Menu, useMantineColorScheme } from "@mantine/core";
import { useSession, useSignOut } from "@/api/session";
import type { MenuOf } from "@/components/MenuButton";
import { OpenedMenu } from "@/components/OpenedMenu";

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
      <Menu.Item onClick={onHelp} rightSection={<span className="faint">?</span>}>
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
