import { Checkbox, SegmentedControl, Select, Textarea, TextInput } from "@mantine/core";
import { COMPARATORS, type Comparator, isCompared } from "@/api/alertRules";
import { compared, type RuleForm, type Scope, type Unit } from "./drafts";
import css from "./rules.module.css";

const COMPARATOR_OPTIONS = Object.entries(COMPARATORS).map(([value, label]) => ({ value, label }));
const UNIT_OPTIONS = [
  { value: "s", label: "seconds" },
  { value: "min", label: "minutes" },
  { value: "h", label: "hours" },
];
const SCOPES = [
  { value: "run", label: "One run" },
  { value: "filter", label: "Runs matching a filter" },
];
const SEVERITIES = [
  { value: "warning", label: "Warning" },
  { value: "error", label: "Error" },
];

/** Error messages by field, from the form or the server. */
export type FieldErrors = Partial<Record<string, string>>;
type Props = { form: RuleForm; fieldErrors: FieldErrors; change: (more: Partial<RuleForm>) => void };

function What({ form, fieldErrors, change }: Props) {
  return (
    <>
      <TextInput
        label="Metric"
        placeholder="train/loss, rolldeck/queue/depth …"
        required
        spellCheck={false}
        value={form.metric}
        error={fieldErrors.metric}
        onChange={(event) => change({ metric: event.currentTarget.value })}
      />
      <div className={css.row}>
        <Select
          label="Condition"
          allowDeselect={false}
          data={COMPARATOR_OPTIONS}
          value={form.comparator}
          error={fieldErrors.comparator}
          onChange={(value) => value && change(compared(form, value as Comparator))}
        />
        {isCompared(form.comparator) && (
          <TextInput
            label="Threshold"
            required
            inputMode="decimal"
            value={form.threshold}
            error={fieldErrors.threshold}
            onChange={(event) => change({ threshold: event.currentTarget.value })}
          />
        )}
      </div>
      <div className={css.row}>
        <TextInput
          label="For"
          description={form.comparator === "no_data" ? "Time without a sample" : "0: a single sample is enough"}
          inputMode="numeric"
          value={form.wait}
          error={fieldErrors.for_seconds}
          onChange={(event) => change({ wait: event.currentTarget.value })}
        />
        <Select
          label="Unit"
          description="of this duration"
          allowDeselect={false}
          data={UNIT_OPTIONS}
          value={form.unit}
          onChange={(value) => value && change({ unit: value as Unit })}
        />
      </div>
    </>
  );
}

/** The fields of a rule. */
export function RuleFields({ form, fieldErrors, change }: Props) {
  return (
    <div className={css.fields}>
      <What form={form} fieldErrors={fieldErrors} change={change} />
      <SegmentedControl
        size="xs"
        aria-label="Scope"
        data={SCOPES}
        value={form.scope}
        onChange={(value) => change({ scope: value as Scope })}
      />
      {form.scope === "run" ? (
        <TextInput
          label="Run"
          required
          spellCheck={false}
          value={form.run}
          error={fieldErrors.run}
          onChange={(event) => change({ run: event.currentTarget.value })}
        />
      ) : (
        <TextInput
          label="Filter"
          description="Same syntax as the list of runs; empty: all runs."
          placeholder="tag:ablation kind:language"
          spellCheck={false}
          value={form.filter}
          error={fieldErrors.filter}
          onChange={(event) => change({ filter: event.currentTarget.value })}
        />
      )}
      <div className={css.row}>
        <TextInput
          label="Name"
          description="Title of its alerts"
          required
          maxLength={80}
          value={form.name}
          error={fieldErrors.name}
          onChange={(event) => change({ name: event.currentTarget.value })}
        />
        <Select
          label="Severity"
          description="Severity of its alerts"
          allowDeselect={false}
          data={SEVERITIES}
          value={form.severity}
          onChange={(value) => value && change({ severity: value as RuleForm["severity"] })}
        />
      </div>
      <Textarea
        label="Instructions"
        description="Shown on the alert."
        autosize
        minRows={2}
        maxLength={4000}
        value={form.runbook}
        error={fieldErrors.runbook}
        onChange={(event) => change({ runbook: event.currentTarget.value })}
      />
      <Checkbox label="Enabled" checked={form.isEnabled} onChange={(event) => change({ isEnabled: event.currentTarget.checked })} />
    </div>
  );
}
