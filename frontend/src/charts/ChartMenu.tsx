import { ActionIcon, Menu } from "@mantine/core";
import { Ellipsis } from "lucide-react";
import type { Controlled } from "@/charts/controllableState";

type Props = {
  name: string;
  isLog: Controlled<boolean>;
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
export function ChartMenu({ name, isLog, isOpen, setIsOpen, cursor, onTable, onPicture, onFile, onCopy, onLink, actions = [] }: Props) {
  return (
    <Menu opened={isOpen} onChange={setIsOpen} position="bottom-end" shadow="md">
      <Menu.Target>
        <ActionIcon className="chart-menu" size={24} variant="subtle" color="gray" aria-label={`Options of ${name}`}>
          <Ellipsis size={16} aria-hidden="true" />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.CheckboxItem checked={isLog.value} onChange={isLog.change}>
          Log axis
        </Menu.CheckboxItem>
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
  );
}
