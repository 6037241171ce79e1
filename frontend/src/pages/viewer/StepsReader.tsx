import { Button, Slider, VisuallyHidden } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useEffect, useState } from "react";
import { type StepCurves, stepsQuery, WINDOW_STEPS } from "@/api/groups";
import { Chart } from "@/charts/Chart";
import { KeyHint } from "@/components/inline";
import { ErrorState, Panel, Panels, TextButton } from "@/components/panels";
import { number } from "@/format";
import { Fact } from "@/pages/viewer/Facts";
import { endBeside, placeOf, type StepPart, stepOf } from "@/pages/viewer/steps";
import own from "@/pages/viewer/steps.module.css";
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
  curves: StepCurves;
  /** Where the steps are stored. */
  parts: StepPart[];
  list: { title: string; note: string; parts: ListedPart[]; leftOut?: number };
  chosen: number | undefined;
  onChoose: (step: number) => void;
};

/** The steps of a fragment or an episode: curves, one step with its action and observation, and the parts. */
export function StepsReader({ run, curves, parts, list, chosen, onChoose }: Props) {
  return (
    <>
      <Panels>
        {CURVES.map(({ name, of, note }) => (
          <Panel key={of} title={name} note={[note, curves.is_exact ? "" : "min to max per point"].filter(Boolean).join(", ")} columns={4}>
            <Chart
              name={`${name} by step`}
              x={curves.step}
              isTime={false}
              xLabel="step"
              lines={[{ label: name.toLowerCase(), values: curves[of].last, role: 1 }]}
              band={curves.is_exact ? undefined : { low: curves[of].low, high: curves[of].high, label: "min – max" }}
              height={CHART_HEIGHT}
              onPick={(index) => onChoose(curves.step[index] ?? 0)}
              empty="No steps."
            />
          </Panel>
        ))}
      </Panels>
      <Step run={run} parts={parts} ends={list.parts} chosen={chosen} onChoose={onChoose} />
      <Panel title={list.title} note={list.note}>
        <ul className={own.parts} aria-label={list.title}>
          {list.parts.map(({ id, first, steps, reward, about, title, link, isCurrent }) => (
            <li key={id} aria-current={isCurrent || undefined}>
              <TextButton onClick={() => onChoose(first)}>
                <VisuallyHidden>Go to the steps </VisuallyHidden>
                {first} – {first + steps - 1}
              </TextButton>
              <span className="anywhere" title={title}>
                {about}
              </span>
              <span data-num>
                {number(reward)} {link}
              </span>
            </li>
          ))}
        </ul>
        {(list.leftOut ?? 0) > 0 && <p className="faint small">{number(list.leftOut)} more.</p>}
      </Panel>
    </>
  );
}

type StepProps = Pick<Props, "run" | "parts" | "chosen" | "onChoose"> & { ends: ListedPart[] };

/** One step, with a slider over all; arrow keys move it, `n` and `p` go to ends of episodes. */
function Step({ run, parts, ends, chosen, onChoose }: StepProps) {
  const [step, setStep] = useState(chosen ?? 0);
  useEffect(() => setStep(chosen ?? 0), [chosen]);
  const total = parts.reduce((sum, part) => sum + part.steps, 0);
  const place = placeOf(parts, Math.min(step, total - 1));
  const start = Math.floor((place?.step ?? 0) / WINDOW_STEPS) * WINDOW_STEPS;
  const { data, error, refetch } = useQuery({ ...stepsQuery(run, place?.part.fragment ?? 0, start), enabled: place !== undefined });
  const end = (direction: 1 | -1) => endBeside(ends, chosen ?? -1, direction);
  const goTo = (target: number | null) => target !== null && onChoose(target);
  useShortcuts({ n: () => void goTo(end(1)), p: () => void goTo(end(-1)) });
  if (!place) return null;
  return (
    <Panel
      title="Step"
      note={`${number(step)} of 0 – ${number(total - 1)}`}
      aside={
        <Button.Group>
          <Button
            size="compact-xs"
            variant="default"
            disabled={end(-1) === null}
            onClick={() => goTo(end(-1))}
            rightSection={<KeyHint>p</KeyHint>}
          >
            Previous end
          </Button>
          <Button
            size="compact-xs"
            variant="default"
            disabled={end(1) === null}
            onClick={() => goTo(end(1))}
            rightSection={<KeyHint>n</KeyHint>}
          >
            Next end
          </Button>
        </Button.Group>
      }
    >
      <Slider size="sm" thumbLabel="Step" min={0} max={Math.max(1, total - 1)} value={step} onChange={setStep} onChangeEnd={onChoose} />
      {error && !data && <ErrorState title="Step unavailable" error={error} onRetry={() => void refetch()} />}
      <dl className={own.step} data-step={step}>
        {stepOf(data, place.step)?.map(([name, text]) => (
          <Fact key={name} name={name}>
            {text}
          </Fact>
        ))}
        {place.part.number !== undefined && <Fact name="Fragment">{place.part.number}</Fact>}
      </dl>
    </Panel>
  );
}
