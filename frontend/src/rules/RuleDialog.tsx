import { Checkbox, SegmentedControl, Select, SimpleGrid, Stack, Textarea, TextInput } from "@mantine/core";
import { type ChangeEvent, useState } from "react";
import { type AlertRule, COMPARATORS, type Comparator, isCompared, useSetRule } from "@/api/alerts";
import { ApiProblem } from "@/api/client";
import { useMayOperate } from "@/api/session";
import { ReasonDialog } from "@/components/Dialog";
import { compared, emptyForm, formOf, problemsOf, type RuleForm, type RuleStart, ruleOf, type Scope, type Unit } from "./drafts";

const optionsOf = (labels: Record<string, string>) => Object.entries(labels).map(([value, label]) => ({ value, label }));
const UNITS = optionsOf({ s: "seconds", min: "minutes", h: "hours" });
const SCOPES = optionsOf({ run: "One run", filter: "Runs matching a filter" });
const SEVERITIES = optionsOf({ warning: "Warning", error: "Error" });

type Props = { rule?: AlertRule; start?: RuleStart; onClose: () => void };

/** Create or edit a rule. */
export default function RuleDialog({ rule, start = {}, onClose }: Props) {
  const mayOperate = useMayOperate();
  const [form, setForm] = useState<RuleForm>(() => (rule ? formOf(rule) : emptyForm(start)));
  const [isTried, setTried] = useState(false);
  const set = useSetRule(rule?.id ?? null);
  const problems = problemsOf(form);
  const refused = set.error instanceof ApiProblem ? set.error.fields : [];
  const errors: Partial<Record<string, string>> = {
    ...(isTried ? problems : {}),
    ...Object.fromEntries(refused.map(({ field, message }) => [field, message])),
  };
  const change = (more: Partial<RuleForm>) => {
    set.reset();
    setForm((old) => ({ ...old, ...more }));
  };
  /** The properties of a text field; `sent` is its name in the API. */
  const field = (name: "name" | "metric" | "threshold" | "wait" | "runbook" | "run" | "filter", sent: string = name) => ({
    ...{ value: form[name], error: errors[sent], spellCheck: name === "runbook" },
    onChange: (event: ChangeEvent<HTMLInputElement | HTMLTextAreaElement>) => change({ [name]: event.currentTarget.value }),
  });
  const save = (reason: string) => {
    setTried(true);
    if (Object.keys(problems).length === 0) set.mutate(ruleOf(form, reason), { onSuccess: onClose });
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
        <TextInput label="Metric" placeholder="train/loss, rolldeck/queue/depth …" withAsterisk data-autofocus {...field("metric")} />
        <SimpleGrid cols={2} spacing="sm">
          <Select
            label="Condition"
            allowDeselect={false}
            data={optionsOf(COMPARATORS)}
            value={form.comparator}
            error={errors.comparator}
            onChange={(value) => value && change(compared(form, value as Comparator))}
          />
          {isCompared(form.comparator) && <TextInput label="Threshold" withAsterisk inputMode="decimal" {...field("threshold")} />}
        </SimpleGrid>
        <SimpleGrid cols={2} spacing="sm">
          <TextInput
            label="For"
            description={form.comparator === "no_data" ? "Time without a sample" : "0: a single sample is enough"}
            inputMode="numeric"
            {...field("wait", "for_seconds")}
          />
          <Select
            label="Unit"
            description="of this duration"
            allowDeselect={false}
            data={UNITS}
            value={form.unit}
            onChange={(value) => value && change({ unit: value as Unit })}
          />
        </SimpleGrid>
        <SegmentedControl
          size="xs"
          aria-label="Scope"
          data={SCOPES}
          value={form.scope}
          onChange={(value) => change({ scope: value as Scope })}
        />
        {form.scope === "run" ? (
          <TextInput label="Run" withAsterisk {...field("run")} />
        ) : (
          <TextInput
            label="Filter"
            description="Same syntax as the list of runs; empty: all runs."
            placeholder="tag:ablation kind:language"
            {...field("filter")}
          />
        )}
        <SimpleGrid cols={2} spacing="sm">
          <TextInput label="Name" description="Title of its alerts" withAsterisk maxLength={80} {...field("name")} />
          <Select
            label="Severity"
            description="Severity of its alerts"
            allowDeselect={false}
            data={SEVERITIES}
            value={form.severity}
            onChange={(value) => value && change({ severity: value as RuleForm["severity"] })}
          />
        </SimpleGrid>
        <Textarea label="Instructions" description="Shown on the alert." autosize minRows={2} maxLength={4000} {...field("runbook")} />
        <Checkbox label="Enabled" checked={form.isEnabled} onChange={(event) => change({ isEnabled: event.currentTarget.checked })} />
      </Stack>
    </ReasonDialog>
  );
}
