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

/** How pages look on this browser. */
export function Look() {
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const [chosen, setChosen] = useState(preferences);
  const now = new Date().toISOString();
  return (
    <Panel title="Look" note="kept on this browser only">
      <Choice label="Theme" help="Shift D switches it anywhere.">
        <SegmentedControl
          aria-label="Theme"
          value={colorScheme}
          data={[
            { value: "auto", label: "As the system" },
            { value: "light", label: "Light" },
            { value: "dark", label: "Dark" },
          ]}
          onChange={(value) => setColorScheme(value as typeof colorScheme)}
        />
      </Choice>
      <Choice
        label="Times of day"
        help={
          <>
            Now is <span data-clock>{clock(now)}</span>. Tooltips always say UTC.
          </>
        }
      >
        <SegmentedControl
          aria-label="Times of day"
          value={chosen.time}
          data={[
            { value: "local", label: "My zone" },
            { value: "utc", label: "UTC" },
          ]}
          onChange={(value) => setChosen(choose({ time: value === "utc" ? "utc" : "local" }))}
        />
      </Choice>
      <Choice label="Density" help="How close the rows of tables stand.">
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
      <Choice label="Rows" help="Of long lists, before one asks for more.">
        <SegmentedControl
          aria-label="Rows"
          value={String(chosen.rows)}
          data={ROWS.map(String)}
          onChange={(value) => setChosen(choose({ rows: Number(value) }))}
        />
      </Choice>
    </Panel>
  );
}
