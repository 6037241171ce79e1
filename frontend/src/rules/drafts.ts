/** Form state of a rule and its validation. Pure. */

import { type AlertRule, type Comparator, isCompared, type SetAlertRule } from "@/api/alerts";

export type Scope = "run" | "filter";
export type RuleForm = {
  name: string;
  metric: string;
  comparator: Comparator;
  threshold: string;
  wait: string;
  unit: Unit;
  severity: AlertRule["severity"];
  runbook: string;
  scope: Scope;
  run: string;
  filter: string;
  isEnabled: boolean;
};

const UNITS = { s: 1, min: 60, h: 3600 } as const;
export type Unit = keyof typeof UNITS;

const SHORTEST_SILENCE = 10;

/** The form after a change of the comparator; "has no data" needs a duration. */
export function compared(form: RuleForm, comparator: Comparator): Partial<RuleForm> {
  return comparator === "no_data" && Number(form.wait) === 0 ? { comparator, wait: "5", unit: "min" } : { comparator };
}

/** Initial values of a rule, for example from a chart. */
export type RuleStart = { metric?: string; run?: string; threshold?: number };

export function emptyForm({ metric = "", run = "", threshold }: RuleStart): RuleForm {
  return {
    name: metric,
    metric,
    comparator: "above",
    threshold: threshold === undefined ? "" : String(threshold),
    wait: "0",
    unit: "min",
    severity: "warning",
    runbook: "",
    scope: run ? "run" : "filter",
    run,
    filter: "",
    isEnabled: true,
  };
}

function waitOf(seconds: number): Pick<RuleForm, "wait" | "unit"> {
  if (seconds > 0 && seconds % UNITS.h === 0) return { wait: String(seconds / UNITS.h), unit: "h" };
  if (seconds % UNITS.min === 0) return { wait: String(seconds / UNITS.min), unit: "min" };
  return { wait: String(seconds), unit: "s" };
}

export function formOf(rule: AlertRule): RuleForm {
  const { name, metric, comparator, severity, runbook, filter } = rule;
  return {
    name,
    metric,
    comparator,
    severity,
    runbook,
    filter,
    threshold: rule.threshold === null ? "" : String(rule.threshold),
    ...waitOf(rule.for_seconds),
    scope: rule.run === null ? "filter" : "run",
    run: rule.run ?? "",
    isEnabled: rule.is_enabled,
  };
}

type FormProblems = Partial<Record<"name" | "metric" | "threshold" | "for_seconds" | "run", string>>;

/** Validation errors by field. */
export function problemsOf(form: RuleForm): FormProblems {
  const problems: FormProblems = {};
  if (!form.name.trim()) problems.name = "Enter a name.";
  if (!form.metric.trim()) problems.metric = "Enter a metric.";
  if (isCompared(form.comparator) && (form.threshold.trim() === "" || !Number.isFinite(Number(form.threshold))))
    problems.threshold = "Enter a number, such as 5 or 1e-4.";
  const seconds = Number(form.wait) * UNITS[form.unit];
  const least = form.comparator === "no_data" ? SHORTEST_SILENCE : 0;
  if (form.wait.trim() === "" || !Number.isInteger(seconds) || seconds < least || seconds > 86_400)
    problems.for_seconds = `Must be between ${least}${least ? " seconds" : ""} and 24 hours.`;
  if (form.scope === "run" && !form.run.trim()) problems.run = "Enter a run.";
  return problems;
}

/** The rule of a valid form. */
export function ruleOf(form: RuleForm, reason: string): SetAlertRule {
  const { name, severity, runbook, comparator, isEnabled } = form;
  const isRun = form.scope === "run";
  return {
    ...{ name: name.trim(), severity, runbook, is_enabled: isEnabled, reason, comparator },
    metric: form.metric.trim(),
    threshold: isCompared(comparator) ? Number(form.threshold) : null,
    for_seconds: Number(form.wait) * UNITS[form.unit],
    run: isRun ? form.run.trim() : null,
    filter: isRun ? "" : form.filter.trim(),
  };
}

/** A y value of a chart, rounded to the axis resolution. */
export const levelText = (value: number): string => String(Number(value.toPrecision(3)));
