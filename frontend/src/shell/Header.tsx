import { ActionIcon, Button, Menu, useMantineColorScheme } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { BookOpen, Menu as MenuIcon, Search } from "lucide-react";
import { useSession, useSignOut } from "@/api/session";
import { KeyHint } from "@/components/KeyHint";
import { addressOfGuide } from "@/guide";
import { AlertsBell } from "@/shell/AlertsBell";
import { LiveIndicator } from "@/shell/LiveIndicator";
import { Mark } from "@/shell/Mark";
import { AUDIT_PAGE, MAIN_PAGES } from "@/shell/mainPages";
import css from "@/shell/shell.module.css";

function UserMenu({ onHelp }: { onHelp: () => void }) {
  const session = useSession();
  const signOut = useSignOut();
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const themes = [
    ["auto", "System"],
    ["light", "Light"],
    ["dark", "Dark"],
  ] as const;
  return (
    <Menu position="bottom-end" width={230}>
      <Menu.Target>
        <Button variant="default" size="compact-md" aria-label={`Menu of ${session?.username ?? "unknown user"}`}>
          <span>{session?.username ?? "…"}</span>
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
        {session?.role === "admin" && (
          <Menu.Item component="a" href={AUDIT_PAGE}>
            Audit
          </Menu.Item>
        )}
        <Menu.Item component="a" href="/docs">
          API reference
        </Menu.Item>
        <Menu.Item onClick={onHelp} rightSection={<span className="faint">?</span>}>
          Keyboard shortcuts
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

/** The main pages as a menu, for screens without room for the rail. */
function PlacesMenu() {
  return (
    <Menu position="bottom-start" width={200}>
      <Menu.Target>
        <ActionIcon variant="default" size="lg" className="narrow-only" aria-label="Pages">
          <MenuIcon size={18} aria-hidden="true" />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        {MAIN_PAGES.map((place) => (
          <Menu.Item key={place.to} component={Link} to={place.to} leftSection={<place.icon size={16} aria-hidden="true" />}>
            {place.label}
          </Menu.Item>
        ))}
        <Menu.Item component="a" href={addressOfGuide("README")} leftSection={<BookOpen size={16} aria-hidden="true" />}>
          Guide
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}

const IS_APPLE = /Mac|iPhone|iPad/.test(navigator.platform);
const PALETTE_KEYS = IS_APPLE ? "⌘K" : "Ctrl K";

export function Header({ onHelp, onPalette }: { onHelp: () => void; onPalette: () => void }) {
  return (
    <header className={css.header}>
      <PlacesMenu />
      <Link to="/runs" className={css.brand} aria-label="Rolldeck, runs">
        <Mark size={22} />
        <span className="wide-only">Rolldeck</span>
      </Link>
      <span className="spacer" />
      <button
        type="button"
        className={css.seek}
        aria-label={`Search or command… ${PALETTE_KEYS}`}
        aria-keyshortcuts="Control+K Meta+K"
        onClick={onPalette}
      >
        <Search size={16} aria-hidden="true" />
        <span className="wide-only">Search or command…</span> <KeyHint>{PALETTE_KEYS}</KeyHint>
      </button>
      <AlertsBell />
      <LiveIndicator />
      <UserMenu onHelp={onHelp} />
    </header>
  );
}
