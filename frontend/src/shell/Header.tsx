import { ActionIcon, Button } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { Menu as MenuIcon, Search } from "lucide-react";
import { useSession } from "@/api/session";
import { KeyHint } from "@/components/KeyHint";
import { MenuButton } from "@/components/MenuButton";
import { onDemand } from "@/components/onDemand";
import { AlertsBell } from "@/shell/AlertsBell";
import { LiveIndicator } from "@/shell/LiveIndicator";
import { Mark } from "@/shell/Mark";
import css from "@/shell/shell.module.css";

const UserMenu = onDemand(() => import("@/shell/UserMenu"), "UserMenu");
const PlacesMenu = onDemand(() => import("@/shell/PlacesMenu"), "PlacesMenu");

const IS_APPLE = /Mac|iPhone|iPad/.test(navigator.platform);
const PALETTE_KEYS = IS_APPLE ? "⌘K" : "Ctrl K";

export function Header({ onHelp, onPalette }: { onHelp: () => void; onPalette: () => void }) {
  const username = useSession()?.username;
  return (
    <header className={css.header}>
      <MenuButton
        menu={PlacesMenu}
        target={
          <ActionIcon variant="default" size="lg" className="narrow-only" aria-label="Pages">
            <MenuIcon size={18} aria-hidden="true" />
          </ActionIcon>
        }
      />
      <Link to="/runs" className={css.brand} aria-label="Rolldeck, runs">
        <Mark size={22} />
        <span className="wide-only">Rolldeck</span>
      </Link>
      <span className="spacer" />
      <Button
        variant="default"
        size="compact-md"
        className="soft"
        aria-label={`Search or command… ${PALETTE_KEYS}`}
        aria-keyshortcuts="Control+K Meta+K"
        onClick={onPalette}
      >
        <Search size={16} aria-hidden="true" />
        <span className="wide-only">&nbsp;Search or command…&nbsp;</span> <KeyHint>{PALETTE_KEYS}</KeyHint>
      </Button>
      <AlertsBell />
      <LiveIndicator />
      <MenuButton
        menu={UserMenu}
        onHelp={onHelp}
        target={
          <Button variant="default" size="compact-md" aria-label={`Menu of ${username ?? "unknown user"}`}>
            <span>{username ?? "…"}</span>
            <span aria-hidden="true">&nbsp;▾</span>
          </Button>
        }
      />
    </header>
  );
}
