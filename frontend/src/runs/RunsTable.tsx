import { UnstyledButton } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { ChevronDown, ChevronRight } from "lucide-react";
import { type ReactNode, useState } from "react";
import type { Sort } from "@/api/runs";
import { RunChip, useIsProven } from "@/components/chips";
import { type Column, DataTable } from "@/components/DataTable";
import { counted, unitFor, visible } from "@/format";
import type { RunColumn } from "@/runs/columns";
import { addressOf, groupsOf, meanAndDeviation, type RunGroup, type ShownRun } from "@/runs/rows";
import css from "@/runs/runs.module.css";
import type { GroupBy } from "@/runs/search";

type Props = {
  runs: ShownRun[];
  columns: RunColumn[];
  sort: Sort;
  onSort: (sort: Sort) => void;
  selected: ReadonlySet<number>;
  onSelect: (ids: number[], isOn: boolean) => void;
  group?: GroupBy;
};

const keyOf = ({ id }: ShownRun) => id;

const NAME: Column<ShownRun> = {
  id: "name",
  label: "Name",
  sort: "name",
  className: css.name,
  cell: (run) => (
    <>
      <Link to="/runs/$name" params={{ name: addressOf(run) }} data-open>
        {run.name}
      </Link>
      {run.archived_at && <span className="faint tiny"> · archived</span>}
      {run.is_default && <span className="faint tiny"> · default</span>}
      <div className="mantine-hidden-from-sm">
        <RunChip run={run} observedAt={run.observed_at} reason={run.fleet_reason} />
      </div>
    </>
  ),
};

/** A column with the unit of its numbers: in the head if all runs have the same, else beside each. */
function withUnit(column: RunColumn, runs: ShownRun[]): Column<ShownRun> {
  const { unit, label, cell, measure } = column;
  if (!unit) return column;
  const units = [...new Set(runs.map(unit))];
  if (units.length !== 1) {
    return {
      ...column,
      cell: (run) => {
        const value = measure?.(run) as number | null | undefined;
        return [cell(run), value != null && <span key="unit" className="faint">{` ${unitFor(value, unit(run))}`}</span>];
      },
    };
  }
  return {
    ...column,
    label: (
      <>
        {label} <span className={css.unit}>{units[0]}</span>
      </>
    ),
  };
}

function RunLine({ run, isSelected, children }: { run: ShownRun; isSelected: boolean; children: ReactNode }) {
  const isProven = useIsProven(run, run.observed_at, run.isUnread);
  return (
    <tr data-opens data-row data-selected={isSelected || undefined} data-unproven={!isProven || undefined}>
      {children}
    </tr>
  );
}

type HeadProps = { group: RunGroup; columns: RunColumn[]; isOpen: boolean; onToggle: () => void };

/** The row of a group: its value, and the mean and deviation of its numbers. */
function GroupHead({ group: { value, runs }, columns, isOpen, onToggle }: HeadProps) {
  const Icon = isOpen ? ChevronDown : ChevronRight;
  return (
    <tr className={css.group}>
      <td />
      <th scope="row" className={css.name}>
        <UnstyledButton fz="inherit" fw="inherit" aria-expanded={isOpen} onClick={onToggle}>
          <Icon size={14} aria-hidden="true" />{" "}
          <span className={css.clipped}>{value === null ? <span className="faint">none</span> : visible(value)}</span>
          <span className="faint"> · {counted(runs.length, "run")}</span>
        </UnstyledButton>
      </th>
      {columns.map(({ id, className, measure }) => (
        <td key={id} className={className}>
          {measure && meanAndDeviation(runs.map(measure))}
        </td>
      ))}
    </tr>
  );
}

/** The runs, or groups of runs with the mean and deviation of their numbers; the server sorts. */
export function RunsTable({ runs, columns, sort, onSort, selected, onSelect, group }: Props) {
  const [closed, setClosed] = useState<readonly string[]>([]);
  const groups =
    group &&
    groupsOf(runs, group).map((each) => {
      const key = JSON.stringify([group, each.value]);
      const isOpen = !closed.includes(key);
      const toggle = () => setClosed(isOpen ? [...closed, key] : closed.filter((other) => other !== key));
      return {
        key,
        head: <GroupHead key={key} group={each} columns={columns} isOpen={isOpen} onToggle={toggle} />,
        rows: isOpen ? each.runs : [],
      };
    });
  return (
    <DataTable
      label="Matching runs"
      tableClass={css.runs}
      rows={runs}
      groups={groups}
      columns={[NAME, ...columns.map((column) => withUnit(column, runs))]}
      keyOf={keyOf}
      selection={{
        chosen: new Set([...selected].map(String)),
        labelOf: ({ name }) => `Select ${name}`,
        all: "Select all shown runs",
        onChoose: (keys, isOn) => onSelect(keys.map(Number), isOn),
      }}
      line={(run, cells) => (
        <RunLine run={run} isSelected={selected.has(run.id)}>
          {cells}
        </RunLine>
      )}
      order={sort}
      onOrder={(order) => onSort(order as Sort)}
    />
  );
}
