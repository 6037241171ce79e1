import { SegmentedControl, useMantineColorScheme } from "@mantine/core";
import { type ReactNode, useState } from "react";
import { Panel } from "@/components/Panel";
import { clock } from "@/format";
import { choose, preferences, ROWS } from "@/preferences";
import css from "./settings.module.css";

function Choice({ label, help, children }: { label: string; help: ReactNode; children: ReactNode }) {
  return (
    <div className={css.choice}>
      <div>
        <b>{label}</b>
        <div className="soft small">{help}</div>
      </div>
      {children}
    </div>
  );
}

/** Appearance settings of this browser. */
export function Appearance() {
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const [chosen, setChosen] = useState(preferences);
  const now = new Date().toISOString();
  return (
    <Panel title="Appearance" note="stored in this browser">
      <Choice label="Theme" help="Shift D toggles the theme on any page.">
        <SegmentedControl
          aria-label="Theme"
          value={colorScheme}
          data={[
            { value: "auto", label: "System" },
            { value: "light", label: "Light" },
            { value: "dark", label: "Dark" },
          ]}
          onChange={(value) => setColorScheme(value as typeof colorScheme)}
        />
      </Choice>
      <Choice
        label="Time zone"
        help={
          <>
            Current time: <span data-clock>{clock(now)}</span>. Tooltips always show UTC.
          </>
        }
      >
        <SegmentedControl
          aria-label="Time zone"
          value={chosen.time}
          data={[
            { value: "local", label: "Local" },
            { value: "utc", label: "UTC" },
          ]}
          onChange={(value) => setChosen(choose({ time: value === "utc" ? "utc" : "local" }))}
        />
      </Choice>
      <Choice label="Density" help="Row spacing of tables.">
        <SegmentedControl
          aria-label="Density"
          value={chosen.density}
          data={[
            { value: "comfortable", label: "Comfortable" },
            { value: "dense", label: "Dense" },
          ]}
          onChange={(value) => setChosen(choose({ density: value === "dense" ? "dense" : "comfortable" }))}
        />
      </Choice>
      <Choice label="Rows per page" help="Initial number of rows in long lists.">
        <SegmentedControl
          aria-label="Rows per page"
          value={String(chosen.rows)}
          data={ROWS.map(String)}
          onChange={(value) => setChosen(choose({ rows: Number(value) }))}
        />
      </Choice>
    </Panel>
  );
}
