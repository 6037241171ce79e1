import { SegmentedControl } from "@mantine/core";
import { Fragment } from "react";
import { lineStyleAt } from "@/charts/lineStyles";
import { Swatch } from "@/charts/Swatch";
import { Panel } from "@/components/Panel";
import { counted, number, visible } from "@/format";
import { valueText } from "@/forms/changes";
import css from "./compare.module.css";
import { type ConfigRow, configRows, settingsOf } from "./comparing";
import type { ComparedRun } from "./useComparedRuns";

type Props = { chosen: ComparedRun[]; places: Map<string, number>; view: "differing" | "all"; onView: (view: "differing" | "all") => void };

function Rows({ title, rows, columns }: { title: string; rows: ConfigRow[]; columns: number }) {
  if (rows.length === 0) return null;
  return (
    <>
      <tr>
        <th scope="rowgroup" colSpan={columns + 1} className={css.group}>
          {title}
        </th>
      </tr>
      {rows.map(({ path, values, isSame }) => (
        <tr key={path} data-path={path} data-same={isSame || undefined}>
          <th scope="row" className={`mono ${css.fixed}`}>
            {visible(path)}
          </th>
          {values.map((value, i) => {
            const isOther = valueText(value) !== valueText(values[0]);
            return (
              <td key={i} className={`anywhere ${isOther ? css.other : "soft"}`}>
                {isOther && <span className="unseen">differs: </span>}
                {visible(valueText(value))}
              </td>
            );
          })}
        </tr>
      ))}
    </>
  );
}

/** Differences between the runs' configurations, relative to the first run. */
export function ConfigDiff({ chosen, places, view, onView }: Props) {
  const there = chosen.flatMap(({ run }) => run ?? []);
  const wanted = (rows: ConfigRow[]) => rows.filter(({ isSame }) => view === "all" || !isSame);
  const groups = [
    { title: "As launched", rows: wanted(configRows(there.map(({ config }) => config))) },
    { title: "Current", rows: wanted(configRows(there.map(settingsOf))) },
  ];
  const rows = groups.reduce((sum, group) => sum + group.rows.length, 0);
  const outside = there.filter(({ config }) => Object.keys(config).length === 0).map(({ name }) => name);
  return (
    <Panel
      title="Configuration"
      note={view === "all" ? `${number(rows)} settings` : counted(rows, "setting differs", "settings differ")}
      aside={
        <SegmentedControl
          size="xs"
          aria-label="Rows"
          data={[
            { value: "differing", label: "Differences" },
            { value: "all", label: "All" },
          ]}
          value={view}
          onChange={(value) => onView(value as "differing" | "all")}
        />
      }
    >
      {there.length < 2 && view !== "all" ? (
        <p className="soft">Add another run to see the differences.</p>
      ) : rows === 0 ? (
        <p className="soft">The configurations are identical.</p>
      ) : (
        <div className={`table-scroll ${css.configs}`} tabIndex={0} role="region" aria-label="Configurations side by side">
          <table className={`table ${css.table}`} aria-label="Configurations">
            <thead>
              <tr>
                <th scope="col" className={css.fixed}>
                  Setting
                </th>
                {there.map(({ name }) => (
                  <th key={name} scope="col">
                    <Swatch look={lineStyleAt(places.get(name) ?? 0)} /> {name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {groups.map((group) => (
                <Fragment key={group.title}>
                  <Rows {...group} columns={there.length} />
                </Fragment>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {outside.length > 0 && <p className="small soft">{outside.join(", ")}: an outside run without a known configuration.</p>}
    </Panel>
  );
}
