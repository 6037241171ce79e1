import { Checkbox, NumberInput, type NumberInputProps, Select, SimpleGrid, Stack, Textarea, TextInput } from "@mantine/core";
import { useState } from "react";
import { type AlertRule, COMPARATORS, isCompared, type SetAlertRule, useSetRule } from "@/api/alerts";
import { ApiProblem } from "@/api/client";
import { useMayOperate } from "@/api/session";
import { ReasonDialog } from "@/components/Dialog";

type Fields = Omit<SetAlertRule, "reason">;
/** Initial values of a rule, for example from a chart. */
export type RuleStart = Partial<Pick<Fields, "metric" | "run" | "threshold">>;

const EMPTY: Fields = {
  name: "",
  metric: "",
  comparator: "above",
  threshold: null,
  for_seconds: 0,
  severity: "warning",
  action: "notify",
  runbook: "",
  run: null,
  filter: "",
  is_enabled: true,
};
const optionsOf = <T extends string>(labels: Record<T, string>) =>
  Object.entries<string>(labels).map(([value, label]) => ({ value: value as T, label }));
const CONDITIONS = optionsOf(COMPARATORS);
const SEVERITIES = optionsOf({ warning: "Warning", error: "Error" });
const ACTIONS = optionsOf({ notify: "Notify", pause: "Notify and pause the run" });

type Props = { rule?: AlertRule; start?: RuleStart; onClose: () => void };

/** Create or edit a rule; the server validates it. */
export default function RuleDialog({ rule, start = {}, onClose }: Props) {
  const mayOperate = useMayOperate();
  const [fields, setFields] = useState<Fields>(() => {
    const { name, metric, comparator, threshold, for_seconds, severity, action, runbook, run, filter, is_enabled } = rule ?? {
      ...EMPTY,
      name: start.metric ?? "",
      ...start,
    };
    return { name, metric, comparator, threshold, for_seconds, severity, action, runbook, run, filter, is_enabled };
  });
  const set = useSetRule(rule?.id ?? null);
  const refused = set.error instanceof ApiProblem ? set.error.fields : [];
  const change = (more: Partial<Fields>) => {
    set.reset();
    setFields((old) => ({ ...old, ...more }));
  };
  const error = (name: keyof Fields) => refused.find(({ field }) => field === name)?.message;
  const text = (name: "name" | "metric" | "runbook" | "run" | "filter") => ({
    value: fields[name] ?? "",
    error: error(name),
    spellCheck: name === "runbook",
    onChange: (event: { currentTarget: { value: string } }) => change({ [name]: event.currentTarget.value }),
  });
  const amount = (name: "threshold" | "for_seconds"): NumberInputProps => ({
    value: fields[name] ?? "",
    error: error(name),
    hideControls: true,
    required: true,
    onChange: (value) => change({ [name]: value === "" ? null : Number(value) }),
  });
  const choice = <T extends string>(name: "comparator" | "severity" | "action", data: { value: T; label: string }[]) => ({
    data,
    value: fields[name] as T,
    allowDeselect: false,
    error: error(name),
    onChange: (value: T | null) => value && change({ [name]: value }),
  });
  const hasLevel = isCompared(fields.comparator);
  const save = (reason: string) => {
    const run = fields.run?.trim() || null;
    const threshold = hasLevel ? fields.threshold : null;
    set.mutate({ ...fields, run, filter: run ? "" : fields.filter, threshold, reason }, { onSuccess: onClose });
  };
  return (
    <ReasonDialog
      title={rule ? `Edit rule ${rule.name}` : "New alert rule"}
      size="32rem"
      submit={rule ? "Save rule" : "Create rule"}
      asking={refused.length > 0 ? { isPending: false, error: null } : set}
      refused="Rule not saved"
      isReady={mayOperate}
      onSubmit={save}
      onClose={onClose}
    >
      <Stack gap="sm">
        <TextInput label="Metric" placeholder="train/loss, env/*/solved …" required data-autofocus {...text("metric")} />
        <SimpleGrid cols={3} spacing="sm">
          <Select label="Condition" {...choice("comparator", CONDITIONS)} />
          {hasLevel && <NumberInput label="Threshold" {...amount("threshold")} />}
          <NumberInput label="For" suffix=" s" min={0} max={86_400} allowDecimal={false} {...amount("for_seconds")} />
        </SimpleGrid>
        <TextInput label="Run" placeholder="all runs that match the filter" {...text("run")} />
        {!fields.run && <TextInput label="Filter" placeholder="tag:ablation kind:language; all runs without one" {...text("filter")} />}
        <TextInput label="Name" required maxLength={80} {...text("name")} />
        <SimpleGrid cols={2} spacing="sm">
          <Select label="Severity" {...choice("severity", SEVERITIES)} />
          <Select label="When it fires" {...choice("action", ACTIONS)} />
        </SimpleGrid>
        <Textarea label="Instructions" description="Shown on the alert." autosize minRows={2} maxLength={4000} {...text("runbook")} />
        <Checkbox label="Enabled" checked={fields.is_enabled} onChange={(event) => change({ is_enabled: event.currentTarget.checked })} />
      </Stack>
    </ReasonDialog>
  );
}
