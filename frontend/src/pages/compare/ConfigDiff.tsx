import { SegmentedControl } from "@mantine/core";
import { Fragment } from "react";
import { lookAt } from "@/charts/looks";
import { Swatch } from "@/charts/Swatch";
import { Panel } from "@/components/Panel";
import { number, visible } from "@/format";
import { valueText } from "@/pages/launch/changes";
import css from "./compare.module.css";
import { type ConfigRow, configRows, settingsOf } from "./comparing";
import type { Chosen } from "./useChosen";

type Props = { chosen: Chosen[]; places: Map<string, number>; view: "differing" | "all"; onView: (view: "differing" | "all") => void };

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

/** Where the runs were told to do different things; what differs from the first of them stands out. */
export function ConfigDiff({ chosen, places, view, onView }: Props) {
  const there = chosen.flatMap(({ run }) => run ?? []);
  const wanted = (rows: ConfigRow[]) => rows.filter(({ isSame }) => view === "all" || !isSame);
  const groups = [
    { title: "As launched", rows: wanted(configRows(there.map(({ config }) => config))) },
    { title: "As set now", rows: wanted(configRows(there.map(settingsOf))) },
  ];
  const rows = groups.reduce((sum, group) => sum + group.rows.length, 0);
  const outside = there.filter(({ config }) => Object.keys(config).length === 0).map(({ name }) => name);
  return (
    <Panel
      title="Configuration"
      note={view === "all" ? `${number(rows)} settings` : `${number(rows)} ${rows === 1 ? "setting differs" : "settings differ"}`}
      aside={
        <SegmentedControl
          size="xs"
          aria-label="How much of it"
          data={[
            { value: "differing", label: "What differs" },
            { value: "all", label: "All of it" },
          ]}
          value={view}
          onChange={(value) => onView(value as "differing" | "all")}
        />
      }
    >
      {there.length < 2 && view !== "all" ? (
        <p className="soft">With another run beside it, what differs between them stands here.</p>
      ) : rows === 0 ? (
        <p className="soft">They were all told the same.</p>
      ) : (
        <div className={`table-scroll ${css.configs}`} tabIndex={0} role="region" aria-label="Configurations beside each other">
          <table className={`table ${css.table}`} aria-label="Configurations">
            <thead>
              <tr>
                <th scope="col" className={css.fixed}>
                  Setting
                </th>
                {there.map(({ name }) => (
                  <th key={name} scope="col">
                    <Swatch look={lookAt(places.get(name) ?? 0)} /> {name}
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
      {outside.length > 0 && (
        <p className="small soft">{outside.join(", ")}: launched elsewhere, without a configuration that the deck knows.</p>
      )}
    </Panel>
  );
}
