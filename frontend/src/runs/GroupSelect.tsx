import { Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { columnsQuery, isNamed } from "@/api/runLists";
import type { MenuOf } from "@/components/MenuButton";
import { useOpened } from "@/components/OpenedMenu";
import { visible } from "@/format";
import type { GroupBy } from "@/runs/search";

const FIXED = [
  { value: "project", label: "Project" },
  { value: "tag", label: "Tag" },
];

type Props = { q: string; group: GroupBy | undefined; onGroup: (group: GroupBy | undefined) => void };

/** Choose what the list is grouped by. */
export function GroupSelect({ q, group, onGroup }: MenuOf & Props) {
  const { opened, setOpened, button } = useOpened<HTMLInputElement>();
  const known = useQuery(columnsQuery(q, true)).data ?? [];
  const values = new Set([...(group ? [group] : []), ...known.filter((id) => id.startsWith("config."))]);
  const named = [...values].filter(isNamed).map((id) => ({ value: id, label: visible(id) }));
  return (
    <Select
      ref={button}
      size="xs"
      aria-label="Group by"
      placeholder="Group by"
      searchable
      clearable
      limit={50}
      data={[...FIXED, ...named]}
      value={group ?? null}
      onChange={(value) => onGroup((value as GroupBy | null) ?? undefined)}
      dropdownOpened={opened}
      onDropdownOpen={() => setOpened(true)}
      onDropdownClose={() => setOpened(false)}
    />
  );
}
