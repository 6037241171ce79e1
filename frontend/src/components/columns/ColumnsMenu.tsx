import { Checkbox, Popover, Text, TextInput } from "@mantine/core";
import { cloneElement, useEffect, useState } from "react";
import { useOpened } from "@/components/OpenedMenu";
import type { MenuOf } from "@/components/onDemand";
import { visible } from "@/format";

const OFFERED_AT_MOST = 50;

type Props = {
  /** Accessible name; defaults to "Columns". */
  label?: string;
  /** Columns that every list of this kind has. */
  builtIn?: { id: string; label: string }[];
  /** Columns with names of their own, such as configuration values; undefined until they are known. */
  named: string[] | undefined;
  chosen: string[];
  /** Maximum number of chosen columns with names of their own. */
  atMost: number;
  /** Names of the sources: "Configuration or metric". */
  sources: string;
  onOpen: (isOpen: boolean) => void;
  onChoose: (ids: string[]) => void;
};

/** Choose the columns of a list. */
export function ColumnsMenu({ target, label = "Columns", builtIn = [], named, chosen, atMost, sources, onOpen, onChoose }: MenuOf & Props) {
  const { opened, setOpened, button } = useOpened();
  const [typed, setTyped] = useState("");
  const isBuiltIn = (id: string) => builtIn.some((column) => column.id === id);
  const own = chosen.filter((id) => !isBuiltIn(id));
  const words = typed.toLowerCase().split(/\s+/);
  // A chosen column stays in the menu, also if no listed row has it.
  const offered = [...builtIn, ...[...new Set([...own, ...(named ?? [])])].map((id) => ({ id, label: visible(id) }))];
  const found = offered.filter((one) => words.every((word) => one.label.toLowerCase().includes(word)));
  useEffect(() => onOpen(opened), [opened, onOpen]);
  return (
    <Popover position="bottom-end" hideDetached={false} trapFocus returnFocus shadow="md" opened={opened} onChange={setOpened}>
      <Popover.Target>{cloneElement(target, { ref: button, onClick: () => setOpened(!opened) })}</Popover.Target>
      <Popover.Dropdown mah="min(28rem, 70vh)" style={{ overflowY: "auto" }} aria-label={label}>
        <TextInput
          size="xs"
          aria-label={`Search ${label.toLowerCase()}`}
          placeholder={sources}
          maxLength={200}
          value={typed}
          onChange={(event) => setTyped(event.currentTarget.value)}
        />
        {found.slice(0, OFFERED_AT_MOST).map(({ id, label: name }) => {
          const isOn = chosen.includes(id);
          return (
            <Checkbox
              key={id}
              size="xs"
              mt="xs"
              label={name}
              checked={isOn}
              disabled={!isOn && !isBuiltIn(id) && own.length >= atMost}
              onChange={() => onChoose(isOn ? chosen.filter((one) => one !== id) : [...chosen, id])}
            />
          );
        })}
        <Text size="xs" c="dimmed" mt="xs">
          {found.length > OFFERED_AT_MOST && `${found.length - OFFERED_AT_MOST} more: search by name. `}
          {found.length === 0 && named && "No matching columns. "}
          {own.length >= atMost && `At most ${atMost} columns: ${sources.toLowerCase()}.`}
        </Text>
      </Popover.Dropdown>
    </Popover>
  );
}
