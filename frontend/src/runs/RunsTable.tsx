import { Checkbox, UnstyledButton } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { ChevronDown, ChevronRight } from "lucide-react";
import { useState } from "react";
import type { Sort } from "@/api/runs";
import { RunChip, useIsProven } from "@/components/chips";
import { type Heading, Table } from "@/components/Table";
import { counted, visible } from "@/format";
import type { Column } from "@/runs/columns";
import { addressOf, groupsOf, meanAndDeviation, type ShownRun } from "@/runs/rows";
import css from "@/runs/runs.module.css";
import type { GroupBy } from "@/runs/search";

type Select = (ids: number[], isOn: boolean) => void;

type Props = {
  runs: ShownRun[];
  columns: Column[];
  sort: Sort;
  onSort: (sort: Sort) => void;
  selected: ReadonlySet<number>;
  onSelect: Select;
  group?: GroupBy;
};

/** On small screens the state is below the name, beside only two numbers. */
const classOf = ({ id }: Pick<Column, "id">) => (["step", "return"].includes(id) ? "" : "mantine-visible-from-sm");

/** The unit of a column, if all runs have the same. */
function unitOfAll({ unit }: Column, runs: ShownRun[]): string | undefined {
  const units = new Set(unit ? runs.map(unit) : []);
  return units.size === 1 ? [...units][0] : undefined;
}

type LineProps = { run: ShownRun; columns: Column[]; units: (string | undefined)[]; isSelected: boolean; onSelect: Select };

function RunLine({ run, columns, units, isSelected, onSelect }: LineProps) {
  const isProven = useIsProven(run, run.observed_at, run.isUnread);
  return (
    <tr data-opens data-row data-selected={isSelected || undefined} data-unproven={!isProven || undefined}>
      <td>
        <Checkbox
          size="xs"
          aria-label={`Select ${run.name}`}
          checked={isSelected}
          onChange={(event) => onSelect([run.id], event.currentTarget.checked)}
        />
      </td>
      <td className={css.name}>
        <Link to="/runs/$name" params={{ name: addressOf(run) }} data-open>
          {run.name}
        </Link>
        {run.archived_at && <span className="faint tiny"> · archived</span>}
        {run.is_default && <span className="faint tiny"> · default</span>}
        <div className="mantine-hidden-from-sm">
          <RunChip run={run} observedAt={run.observed_at} reason={run.fleet_reason} />
        </div>
      </td>
      {columns.map((column, index) => (
        <td key={column.id} className={classOf(column)} data-num={column.isNumber || undefined}>
          {column.cell(run)}
          {column.unit && !units[index] && column.measure?.(run) != null && <span className="faint"> {column.unit(run)}</span>}
        </td>
      ))}
    </tr>
  );
}

/** The runs, or groups of runs with the mean and deviation of their numbers; the server sorts. */
export function RunsTable({ runs, columns, sort, onSort, selected, onSelect, group }: Props) {
  const [closed, setClosed] = useState<readonly string[]>([]);
  const units = columns.map((column) => unitOfAll(column, runs));
  const all = runs.length > 0 && runs.every(({ id }) => selected.has(id));
  const head = (column: Pick<Column, "label" | "title" | "sort"> & { isNumber?: boolean }, className: string, unit?: string): Heading => {
    const { label, title, sort: name, isNumber } = column;
    const isMine = name !== undefined && sort.replace("-", "") === name;
    const isDown = sort.startsWith("-");
    return {
      ...{ title, className, isNumber, "aria-sort": isMine ? (isDown ? "descending" : "ascending") : undefined },
      label: (
        <>
          {name ? (
            <UnstyledButton className={css.sort} onClick={() => onSort(isMine && isDown ? name : `-${name}`)}>
              {label}
              <span aria-hidden="true">{isMine ? (isDown ? " ↓" : " ↑") : ""}</span>
            </UnstyledButton>
          ) : (
            label
          )}
          {unit && <span className={css.unit}> {unit}</span>}
        </>
      ),
    };
  };
  const lines = (members: ShownRun[], of = "") =>
    members.map((run) => (
      <RunLine key={`${of}${run.id}`} run={run} columns={columns} units={units} isSelected={selected.has(run.id)} onSelect={onSelect} />
    ));
  const headings: Heading[] = [
    {
      label: (
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
      ),
    },
    head({ label: "Name", sort: "name" }, css.name ?? ""),
    ...columns.map((column, index) => head(column, classOf(column), units[index])),
  ];
  return (
    <Table label="Matching runs" tableClass={css.runs} columns={headings}>
      {group
        ? groupsOf(runs, group).map(({ value, runs: members }) => {
            const key = JSON.stringify([group, value]);
            const isOpen = !closed.includes(key);
            const Icon = isOpen ? ChevronDown : ChevronRight;
            return [
              <tr key={key} className={css.group}>
                <td />
                <th scope="row" className={css.name}>
                  <UnstyledButton
                    className={css.sort}
                    aria-expanded={isOpen}
                    onClick={() => setClosed(isOpen ? [...closed, key] : closed.filter((each) => each !== key))}
                  >
                    <Icon size={14} aria-hidden="true" />{" "}
                    <span className={css.clipped}>{value === null ? <span className="faint">none</span> : visible(value)}</span>
                    <span className="faint"> · {counted(members.length, "run")}</span>
                  </UnstyledButton>
                </th>
                {columns.map((column) => (
                  <td key={column.id} className={classOf(column)} data-num={column.isNumber || undefined}>
                    {column.measure && meanAndDeviation(members.map(column.measure))}
                  </td>
                ))}
              </tr>,
              isOpen && lines(members, key),
            ];
          })
        : lines(runs)}
    </Table>
  );
}
