import { Button } from "@mantine/core";
import { type ReactNode, useState } from "react";
import type { StepCurves } from "@/api/fragments";
import { Chart } from "@/charts/Chart";
import { KeyHint } from "@/components/KeyHint";
import { Panel } from "@/components/Panel";
import { Panels } from "@/components/Panels";
import { number } from "@/format";
import { endBeside, type StepPart } from "@/pages/viewer/fragment";
import own from "@/pages/viewer/fragment.module.css";
import { Steps } from "@/pages/viewer/Steps";
import { useShortcuts } from "@/shell/keyboard";

const CHART_HEIGHT = 130;
const CURVES = [
  { name: "Return", of: "total", note: "rewards of the episode so far" },
  { name: "Reward", of: "reward", note: "" },
  { name: "Value", of: "value", note: "estimate of the policy" },
] as const;

/** An episode in a fragment, or a fragment of an episode. */
export type ListedPart = {
  id: string;
  /** Its first step in the reader, and the number of its steps. */
  first: number;
  steps: number;
  reward: number;
  /** Whether its last step ends an episode. */
  ends: boolean;
  about: ReactNode;
  title?: string;
  link: ReactNode;
  isCurrent?: boolean;
};

type Props = {
  run: string;
  /** Accessible name of the table of steps. */
  label: string;
  curves: StepCurves;
  /** Where the steps are stored. */
  parts: StepPart[];
  list: { title: string; note: string; parts: ListedPart[]; leftOut?: number };
  chosen: number | undefined;
  onChoose: (step: number) => void;
};

/** The steps of a fragment or an episode: curves, its parts, and every step in a folded table. */
export function StepsReader({ run, label, curves, parts, list, chosen, onChoose }: Props) {
  const [isOpen, setOpen] = useState(chosen !== undefined);
  const total = parts.reduce((sum, part) => sum + part.steps, 0);
  const end = (direction: 1 | -1) => endBeside(list.parts, chosen ?? -1, direction);
  const choose = (step: number | null) => {
    if (step === null) return;
    setOpen(true);
    onChoose(step);
  };
  useShortcuts({ n: () => choose(end(1)), p: () => choose(end(-1)) });
  return (
    <>
      <Panels>
        {CURVES.map(({ name, of, note }) => (
          <Panel
            key={of}
            title={name}
            note={[note, curves.is_exact ? "" : "min to max per point"].filter(Boolean).join(", ")}
            className="span-4"
          >
            <Chart
              name={`${name} by step`}
              x={curves.step}
              isTime={false}
              xLabel="step"
              lines={[{ label: name.toLowerCase(), values: curves[of].last, role: 1 }]}
              band={curves.is_exact ? undefined : { low: curves[of].low, high: curves[of].high, label: "min – max" }}
              height={CHART_HEIGHT}
              onPick={(index) => choose(curves.step[index] ?? 0)}
              empty="No steps."
            />
          </Panel>
        ))}
      </Panels>
      <Panel title={list.title} note={list.note}>
        <ul className={own.episodes} aria-label={list.title}>
          {list.parts.map(({ id, first, steps, reward, about, title, link, isCurrent }) => (
            <li key={id} aria-current={isCurrent || undefined}>
              <button type="button" className={own.jump} onClick={() => choose(first)}>
                <span className="unseen">Go to the steps </span>
                {first} – {first + steps - 1}
              </button>
              <span className="anywhere" title={title}>
                {about}
              </span>
              <span className={own.num}>
                {number(reward)} {link}
              </span>
            </li>
          ))}
        </ul>
        {(list.leftOut ?? 0) > 0 && <p className="faint small">{number(list.leftOut)} more.</p>}
      </Panel>
      <details className={`panel ${own.fold}`} open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>
          Steps <span className="faint">{`${number(total)}${chosen === undefined ? "" : `, at ${number(chosen)}`}`}</span>
        </summary>
        <Button.Group>
          <Button
            size="compact-sm"
            variant="default"
            disabled={end(-1) === null}
            onClick={() => choose(end(-1))}
            rightSection={<KeyHint>p</KeyHint>}
          >
            Previous end
          </Button>
          <Button
            size="compact-sm"
            variant="default"
            disabled={end(1) === null}
            onClick={() => choose(end(1))}
            rightSection={<KeyHint>n</KeyHint>}
          >
            Next end
          </Button>
        </Button.Group>
        {isOpen && <Steps run={run} label={label} parts={parts} chosen={chosen} onChoose={choose} />}
      </details>
    </>
  );
}
