import { Menu } from "@mantine/core";
import type { MenuOf } from "@/components/MenuButton";
import { OpenedMenu } from "@/components/OpenedMenu";
import { BULK_ACTIONS, type BulkAction } from "@/runs/bulk";

/** The actions on several runs. */
export function BulkMenu({ target, onPick }: MenuOf & { onPick: (bulk: BulkAction) => void }) {
  return (
    <OpenedMenu target={target} position="bottom-start">
      {BULK_ACTIONS.map((bulk) => (
        <Menu.Item key={bulk.action} onClick={() => onPick(bulk)}>
          {bulk.label}
        </Menu.Item>
      ))}
    </OpenedMenu>
  );
}
