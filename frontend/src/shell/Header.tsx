import { Button, Menu, useMantineColorScheme } from "@mantine/core";
import { Link, useMatchRoute } from "@tanstack/react-router";
import { useSession, useSignOut } from "@/api/session";
import { LiveIndicator } from "@/shell/LiveIndicator";
import { Mark } from "@/shell/Mark";

function UserMenu({ onHelp }: { onHelp: () => void }) {
  const session = useSession();
  const signOut = useSignOut();
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const themes = [
    ["auto", "As the system"],
    ["light", "Light"],
    ["dark", "Dark"],
  ] as const;
  return (
    <Menu position="bottom-end" width={230}>
      <Menu.Target>
        <Button variant="default" size="compact-md" aria-label={`Menu of ${session?.username ?? "nobody"}`}>
          <span className="user-name">{session?.username ?? "…"}</span>
          <span aria-hidden="true">&nbsp;▾</span>
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
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
          Keyboard
        </Menu.Item>
        <Menu.Divider />
        <Menu.Label>Theme</Menu.Label>
        <Menu.RadioGroup value={colorScheme} onChange={(value) => setColorScheme(value as typeof colorScheme)}>
          {themes.map(([value, text]) => (
            <Menu.RadioItem key={value} value={value} closeMenuOnClick={false}>
              {text}
            </Menu.RadioItem>
          ))}
        </Menu.RadioGroup>
        <Menu.Divider />
        <Menu.Item onClick={() => signOut.mutate()}>Sign out</Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}

export function Header({ onHelp }: { onHelp: () => void }) {
  const run = useMatchRoute()({ to: "/runs/$name" });
  const isOnRun = run !== false && run.name !== "new";
  return (
    <header className="header">
      <div className="header-inner">
        <Link to="/runs" className="brand" aria-label="Rolldeck, all runs">
          <Mark size={22} />
          <span className="wide-only">Rolldeck</span>
        </Link>
        <nav aria-label="Main" style={{ display: "flex", gap: "1.1rem" }}>
          <Link to="/runs" className="nav-link" data-within={isOnRun || undefined} activeOptions={{ exact: true, includeSearch: false }}>
            Runs
          </Link>
          <Link to="/runs/new" className="nav-link" activeOptions={{ exact: true }}>
            Launch
          </Link>
        </nav>
        <span className="spacer" />
        <LiveIndicator />
        <UserMenu onHelp={onHelp} />
      </div>
    </header>
  );
}
