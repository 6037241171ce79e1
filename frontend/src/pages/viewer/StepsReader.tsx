import { Box, Group, Slider, VisuallyHidden } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useEffect, useState } from "react";
import { type StepCurves, stepsQuery, WINDOW_STEPS } from "@/api/groups";
import { Chart } from "@/charts/Chart";
import { type Column, DataTable } from "@/components/DataTable";
import { ErrorState, Panel, Panels, TextButton } from "@/components/panels";
import { number } from "@/format";
import { infoName, placeOf, type StepPart, stepOf } from "@/pages/viewer/steps";

const CHART_HEIGHT = 130;
/** The curves of the steps, each with its name. */
const shownCurves = ({ total, reward, value, info }: StepCurves) => [
  { name: "Return", curve: total, note: "rewards of the episode so far" },
  { name: "Reward", curve: reward, note: "" },
  { name: "Value", curve: value, note: "estimate of the policy" },
  ...info.map((curve) => ({ name: infoName(curve.key), curve, note: "" })),
];

/** An episode in a fragment, or a fragment of an episode. */
export type ListedPart = {
  id: string;
  /** Its first step in the reader, and the number of its steps. */
  first: number;
  steps: number;
  reward: number;
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
  title: string;
  note: string;
  listed: ListedPart[];
  chosen: number | undefined;
  onChoose: (step: number) => void;
};

/** The steps of a fragment or an episode: curves, one step with its action and observation, and the parts. */
export function StepsReader({ run, curves, parts, title, note, listed, chosen, onChoose }: Props) {
  const columns: Column<ListedPart>[] = [
    {
      label: "Steps",
      cell: ({ first, steps }) => (
        <TextButton className="nowrap" onClick={() => onChoose(first)}>
          <VisuallyHidden>Go to the steps </VisuallyHidden>
          {first} – {first + steps - 1}
        </TextButton>
      ),
    },
    { label: title.slice(0, -1), cell: (part) => <span title={part.title}>{part.about}</span> },
    { label: "Return", isNumber: true, value: ({ reward }) => reward },
    { label: "Open", cell: ({ link }) => link },
  ];
  return (
    <>
      <Panels>
        {shownCurves(curves).map(({ name, curve, note: meaning }) => (
          <Panel
            key={name}
            title={name}
            note={[meaning, curves.is_exact ? "" : "min to max per point"].filter(Boolean).join(", ")}
            columns={4}
          >
            <Chart
              name={`${name} by step`}
              x={curves.step}
              isTime={false}
              xLabel="step"
              lines={[{ label: name.toLowerCase(), values: curve.last, role: 1 }]}
              band={curves.is_exact ? undefined : { low: curve.low, high: curve.high, label: "min – max" }}
              height={CHART_HEIGHT}
              onPick={(index) => onChoose(curves.step[index] ?? 0)}
              empty={curve.last.length ? "No numbers." : "No steps."}
            />
          </Panel>
        ))}
      </Panels>
      <Step run={run} parts={parts} chosen={chosen} onChoose={onChoose} />
      <Panel title={title} note={note}>
        <DataTable
          label={title}
          rows={listed}
          columns={columns}
          keyOf={({ id }) => id}
          attributes={({ isCurrent }) => ({ "aria-current": isCurrent || undefined })}
          page={10}
        />
      </Panel>
    </>
  );
}

type StepProps = Pick<Props, "run" | "parts" | "chosen" | "onChoose">;

/** One step, with a slider over all, which arrow keys move. */
function Step({ run, parts, chosen, onChoose }: StepProps) {
  const [step, setStep] = useState(chosen ?? 0);
  useEffect(() => setStep(chosen ?? 0), [chosen]);
  const total = parts.reduce((sum, part) => sum + part.steps, 0);
  const place = placeOf(parts, Math.min(step, total - 1));
  const start = Math.floor((place?.step ?? 0) / WINDOW_STEPS) * WINDOW_STEPS;
  const { data, error, refetch } = useQuery({ ...stepsQuery(run, place?.part.fragment ?? 0, start), enabled: place !== undefined });
  if (!place) return null;
  const facts = stepOf(data, place.step) ?? [];
  if (place.part.number !== undefined) facts.push(["Fragment", number(place.part.number)]);
  return (
    <Panel title="Step" note={`${number(step)} of 0 – ${number(total - 1)}`}>
      <Slider size="sm" thumbLabel="Step" min={0} max={Math.max(1, total - 1)} value={step} onChange={setStep} onChangeEnd={onChoose} />
      {error && !data && <ErrorState title="Step unavailable" error={error} onRetry={() => refetch()} />}
      <Group component="dl" gap="0.15rem 1.5rem" mih="2.75rem" mt="sm" mb={0} data-step={step}>
        {facts.map(([name, text]) => (
          <Group key={name} gap="0.4rem" align="baseline" wrap="nowrap">
            <dt className="tiny faint">{name}</dt>
            <Box component="dd" m={0} className="anywhere">
              {text}
            </Box>
          </Group>
        ))}
      </Group>
    </Panel>
  );
}
