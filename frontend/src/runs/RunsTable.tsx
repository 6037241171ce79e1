import { Checkbox, UnstyledButton } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { ChevronDown, ChevronRight } from "lucide-react";
import { useState } from "react";
import type { Sort } from "@/api/runLists";
import { RunChip, useIsProven } from "@/components/RunChip";
import { counted, visible } from "@/format";
import type { Column } from "@/runs/columns";
import { groupsOf, meanAndDeviation, type RunGroup, type ShownRun } from "@/runs/rows";
import { addressOf } from "@/runs/runAddress";
import css from "@/runs/runs.module.css";
import type { GroupBy } from "@/runs/search";

type Props = {
  runs: ShownRun[];
  columns: Column[];
  sort: Sort;
  onSort: (sort: Sort) => void;
  selected: ReadonlySet<number>;
  onSelect: (ids: number[], isOn: boolean) => void;
  isDense: boolean;
  group?: GroupBy;
};

/** On small screens the state is below the name, beside only two numbers. */
const widthOf = (id: string) => (["name", "step", "return"].includes(id) ? "" : "wide-only");

type HeadProps = Pick<Props, "sort" | "onSort"> & { column: Omit<Column, "isShown" | "cell">; unit?: string };

/** The unit of a column, if all runs have the same. */
function unitOfAll({ unit }: Column, runs: ShownRun[]): string | undefined {
  const units = new Set(unit ? runs.map(unit) : []);
  return units.size === 1 ? [...units][0] : undefined;
}

function SortHead({ column, unit, sort, onSort }: HeadProps) {
  const isMine = column.sort !== undefined && sort.replace("-", "") === column.sort;
  const isDown = sort.startsWith("-");
  return (
    <th
      scope="col"
      className={`${column.isNumber ? "num" : ""} ${column.id === "name" ? css.name : ""} ${widthOf(column.id)}`}
      title={column.title}
      aria-sort={isMine ? (isDown ? "descending" : "ascending") : undefined}
    >
      {column.sort ? (
        <UnstyledButton
          className={css.sort}
          onClick={() => onSort(isMine && isDown ? (column.sort as Sort) : `-${column.sort as NonNullable<Column["sort"]>}`)}
        >
          {column.label}
          <span aria-hidden="true">{isMine ? (isDown ? " ↓" : " ↑") : ""}</span>
        </UnstyledButton>
      ) : (
        column.label
      )}
      {unit && <span className={css.unit}> {unit}</span>}
    </th>
  );
}

function RunLine({
  run,
  columns,
  units,
  isSelected,
  onSelect,
}: {
  run: ShownRun;
  columns: Column[];
  units: (string | undefined)[];
  isSelected: boolean;
  onSelect: Props["onSelect"];
}) {
  const isProven = useIsProven(run, run.observed_at, run.isUnread);
  return (
    <tr className="opens" data-row data-selected={isSelected || undefined} data-unproven={!isProven || undefined}>
      <td className={css.pick}>
        <Checkbox
          size="xs"
          aria-label={`Select ${run.name}`}
          checked={isSelected}
          onChange={(event) => onSelect([run.id], event.currentTarget.checked)}
        />
      </td>
      <td className={css.name}>
        <Link to="/runs/$name" params={{ name: addressOf(run) }} className="strong" data-open>
          {run.name}
        </Link>
        {run.archived_at && <span className="faint tiny"> · archived</span>}
        {run.is_default && <span className="faint tiny"> · default</span>}
        <div className="narrow-only">
          <RunChip run={run} observedAt={run.observed_at} reason={run.fleet_reason} />
        </div>
      </td>
      {columns.map((column, index) => (
        <td key={column.id} className={`${column.isNumber ? "num" : ""} ${widthOf(column.id)}`}>
          {column.cell(run)}
          {column.unit && !units[index] && column.measure?.(run) != null && <span className="faint"> {column.unit(run)}</span>}
        </td>
      ))}
    </tr>
  );
}

type GroupProps = { group: RunGroup; columns: Column[]; isOpen: boolean; onToggle: () => void };

function GroupLine({ group, columns, isOpen, onToggle }: GroupProps) {
  const Icon = isOpen ? ChevronDown : ChevronRight;
  return (
    <tr className={css.group}>
      <td className={css.pick} />
      <th scope="rowgroup" className={css.name}>
        <UnstyledButton className={css.sort} aria-expanded={isOpen} onClick={onToggle}>
          <Icon size={14} aria-hidden="true" />{" "}
          <span className="clipped">{group.value === null ? <span className="faint">none</span> : visible(group.value)}</span>
          <span className="faint"> · {counted(group.runs.length, "run")}</span>
        </UnstyledButton>
      </th>
      {columns.map(({ id, isNumber, measure }) => (
        <td key={id} className={`${isNumber ? "num" : ""} ${widthOf(id)}`}>
          {measure && meanAndDeviation(group.runs.map(measure))}
        </td>
      ))}
    </tr>
  );
}

export function RunsTable({ runs, columns, sort, onSort, selected, onSelect, isDense, group }: Props) {
  const [closed, setClosed] = useState<ReadonlySet<string>>(new Set());
  const units = columns.map((column) => unitOfAll(column, runs));
  const lines = (members: ShownRun[]) =>
    members.map((run) => (
      <RunLine key={run.id} run={run} columns={columns} units={units} isSelected={selected.has(run.id)} onSelect={onSelect} />
    ));
  const toggle = (key: string) =>
    setClosed((before) => new Set(before.has(key) ? [...before].filter((one) => one !== key) : [...before, key]));
  const all = runs.length > 0 && runs.every(({ id }) => selected.has(id));
  return (
    <div className="table-scroll">
      <table className={`table ${css.runs}`} data-dense={isDense || undefined}>
        <caption className="unseen">Matching runs</caption>
        <thead>
          <tr>
            <th scope="col" className={css.pick}>
              <Checkbox
                size="xs"
                aria-label="Select all shown runs"
                checked={all}
                indeterminate={!all && selected.size > 0}
                onChange={(event) =>
                  onSelect(
                    runs.map(({ id }) => id),
                    event.currentTarget.checked,
                  )
                }
              />
            </th>
            <SortHead column={{ id: "name", label: "Name", sort: "name" }} sort={sort} onSort={onSort} />
            {columns.map((column, index) => (
              <SortHead key={column.id} column={column} unit={units[index]} sort={sort} onSort={onSort} />
            ))}
          </tr>
        </thead>
        {group ? (
          groupsOf(runs, group).map((each) => {
            const key = JSON.stringify([group, each.value]);
            const isOpen = !closed.has(key);
            return (
              <tbody key={key}>
                <GroupLine group={each} columns={columns} isOpen={isOpen} onToggle={() => toggle(key)} />
                {isOpen && lines(each.runs)}
              </tbody>
            );
          })
        ) : (
          <tbody>{lines(runs)}</tbody>
        )}
      </table>
    </div>
  );
}
