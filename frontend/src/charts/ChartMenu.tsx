import { ActionIcon, Menu } from "@mantine/core";
import { Ellipsis, Maximize2 } from "lucide-react";
import type { ChartLook } from "@/charts/look";

type Props = {
  name: string;
  look: ChartLook;
  onLook: (more: ChartLook) => void;
  /** Whether the x axis can be logarithmic. */
  hasLogX: boolean;
  /** Whether the x axis can be another metric. */
  hasXChoices: boolean;
  isOpen: boolean;
  setIsOpen: (isOpen: boolean) => void;
  /** The last cursor position as text; null if there was none. */
  cursor: string | null;
  onTable: () => void;
  onPicture: () => void;
  onFile: () => void;
  onCopy: () => void;
  onLink?: () => void;
  actions?: readonly { label: string; act: () => void }[];
};

/** The menu of a chart. */
export function ChartMenu({
  name,
  look,
  onLook,
  hasLogX,
  hasXChoices,
  isOpen,
  setIsOpen,
  cursor,
  onTable,
  onPicture,
  onFile,
  onCopy,
  onLink,
  actions = [],
}: Props) {
  const flag = (key: "isLog" | "isLogX" | "isClipped", label: string) => (
    <Menu.CheckboxItem checked={look[key] ?? false} onChange={(isOn) => onLook({ [key]: isOn })}>
      {label}
    </Menu.CheckboxItem>
  );
  return (
    <div className="chart-menu" data-open={isOpen || undefined}>
      {!look.isLarge && (
        <ActionIcon size={24} variant="subtle" color="gray" aria-label={`Enlarge ${name}`} onClick={() => onLook({ isLarge: true })}>
          <Maximize2 size={14} aria-hidden="true" />
        </ActionIcon>
      )}
      <Menu opened={isOpen} onChange={setIsOpen} position="bottom-end" shadow="md">
        <Menu.Target>
          <ActionIcon size={24} variant="subtle" color="gray" aria-label={`Options of ${name}`}>
            <Ellipsis size={16} aria-hidden="true" />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          {flag("isLog", "Log axis")}
          {hasLogX && flag("isLogX", "Log x axis")}
          {flag("isClipped", "Without outliers")}
          {!look.isLarge && <Menu.Item onClick={() => onLook({ isLarge: true })}>Enlarge and set ranges</Menu.Item>}
          {hasXChoices && !look.isLarge && <Menu.Item onClick={() => onLook({ isLarge: true })}>Metric as x axis…</Menu.Item>}
          <Menu.Divider />
          <Menu.Item onClick={onTable}>Show as table</Menu.Item>
          <Menu.Item onClick={onPicture}>Save as PNG</Menu.Item>
          <Menu.Item onClick={onFile}>Save as CSV</Menu.Item>
          <Menu.Item disabled={cursor === null} rightSection={<span className="faint tiny">Ctrl C</span>} onClick={onCopy}>
            {cursor === null ? "Copy values under the cursor" : `Copy values at ${cursor}`}
          </Menu.Item>
          {onLink && <Menu.Item onClick={onLink}>Copy link</Menu.Item>}
          {actions.length > 0 && <Menu.Divider />}
          {actions.map(({ label, act }) => (
            <Menu.Item key={label} onClick={act}>
              {label}
            </Menu.Item>
          ))}
        </Menu.Dropdown>
      </Menu>
    </div>
  );
}
