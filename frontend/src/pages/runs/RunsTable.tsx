import { Checkbox, UnstyledButton } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { Sort } from "@/api/runLists";
import { RunChip, useIsProven } from "@/components/RunChip";
import type { Column } from "@/pages/runs/columns";
import type { ShownRun } from "@/pages/runs/rows";
import { addressOf } from "@/pages/runs/runAddress";
import css from "./runs.module.css";

type Props = {
  runs: ShownRun[];
  columns: Column[];
  sort: Sort;
  onSort: (sort: Sort) => void;
  selected: ReadonlySet<number>;
  onSelect: (ids: number[], isOn: boolean) => void;
  isDense: boolean;
};

/** On small screens the state is below the name, beside only two numbers. */
const widthOf = (id: string) => (["name", "step", "return"].includes(id) ? "" : "wide-only");

type HeadProps = Pick<Props, "sort" | "onSort"> & { column: Omit<Column, "isShown" | "cell"> };

function SortHead({ column, sort, onSort }: HeadProps) {
  const isMine = column.sort !== undefined && sort.replace("-", "") === column.sort;
  const isDown = sort.startsWith("-");
  return (
    <th
      scope="col"
      className={`${column.isNumber ? "num" : ""} ${widthOf(column.id)}`}
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
    </th>
  );
}

function RunLine({
  run,
  columns,
  isSelected,
  onSelect,
}: {
  run: ShownRun;
  columns: Column[];
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
      {columns.map((column) => (
        <td key={column.id} className={`${column.isNumber ? "num" : ""} ${widthOf(column.id)}`}>
          {column.cell(run)}
        </td>
      ))}
    </tr>
  );
}

export function RunsTable({ runs, columns, sort, onSort, selected, onSelect, isDense }: Props) {
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
            {columns.map((column) => (
              <SortHead key={column.id} column={column} sort={sort} onSort={onSort} />
            ))}
          </tr>
        </thead>
        <tbody>
          {runs.map((run) => (
            <RunLine key={run.id} run={run} columns={columns} isSelected={selected.has(run.id)} onSelect={onSelect} />
          ))}
        </tbody>
      </table>
    </div>
  );
}
