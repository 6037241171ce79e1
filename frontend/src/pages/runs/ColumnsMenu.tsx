import { Button, Checkbox, Popover, Text, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { columnsQuery, isNamed } from "@/api/runLists";
import { visible } from "@/format";
import { COLUMNS, columnsOf, NAMED_AT_MOST, wordOf } from "@/pages/runs/columns";
import css from "./runs.module.css";

const OFFERED_AT_MOST = 50;

type Props = { cols: string | undefined; onCols: (cols: string | undefined) => void; q: string };

/** Choose columns: the built-in ones, and every configuration value and metric of the runs of a filter. */
export function ColumnsMenu({ cols, onCols, q }: Props) {
  const [isOpen, setOpen] = useState(false);
  const [typed, setTyped] = useState("");
  const known = useQuery(columnsQuery(q, isOpen));
  const chosen = columnsOf(cols).map(({ id }) => id);
  const isFull = chosen.filter(isNamed).length >= NAMED_AT_MOST - 1;
  const words = typed.toLowerCase().split(/\s+/);
  // A chosen column stays in the menu, also if no listed run has it.
  const named = [...new Set([...chosen.filter(isNamed), ...(known.data ?? [])])].map((id) => ({ id, label: visible(id) }));
  const found = [...COLUMNS, ...named].filter(({ label }) => words.every((word) => label.toLowerCase().includes(word)));
  const offered = found.slice(0, OFFERED_AT_MOST);
  return (
    <Popover position="bottom-end" hideDetached={false} trapFocus returnFocus shadow="md" opened={isOpen} onChange={setOpen}>
      <Popover.Target>
        <Button size="compact-sm" variant="default" onClick={() => setOpen(!isOpen)}>
          Columns
        </Button>
      </Popover.Target>
      <Popover.Dropdown className={css.columns} aria-label="Columns">
        <TextInput
          size="xs"
          aria-label="Search columns"
          placeholder="Configuration or metric"
          maxLength={200}
          value={typed}
          onChange={(event) => setTyped(event.currentTarget.value)}
        />
        {offered.map(({ id, label }) => {
          const isOn = chosen.includes(id);
          return (
            <Checkbox
              key={id}
              size="xs"
              mt="xs"
              label={label}
              checked={isOn}
              disabled={!isOn && isNamed(id) && isFull}
              onChange={() => onCols(wordOf(isOn ? chosen.filter((name) => name !== id) : [...chosen, id]))}
            />
          );
        })}
        {found.length > offered.length && (
          <Text size="xs" c="dimmed" mt="xs">
            {found.length - offered.length} more: search by name.
          </Text>
        )}
        {found.length === 0 && (
          <Text size="xs" c="dimmed" mt="xs">
            No matching columns.
          </Text>
        )}
        {isFull && (
          <Text size="xs" c="dimmed" mt="xs">
            At most {NAMED_AT_MOST - 1} columns of configuration and metrics.
          </Text>
        )}
      </Popover.Dropdown>
    </Popover>
  );
}
