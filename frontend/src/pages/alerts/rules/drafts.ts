/** Hold what somebody types into the form of a rule, and say what of it is no rule yet. Pure. */

import { type AlertRule, type Comparator, type Draft, isCompared, type SetAlertRule } from "@/api/alertRules";

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

/** What changes with what it is compared with: silence takes its time. */
export function compared(form: RuleForm, comparator: Comparator): Partial<RuleForm> {
  return comparator === "no_data" && Number(form.wait) === 0 ? { comparator, wait: "5", unit: "min" } : { comparator };
}

/** What a rule is begun with, from a chart for instance. */
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

/** What of a form is no rule yet, by field. */
export function problemsOf(form: RuleForm): FormProblems {
  const problems: FormProblems = {};
  if (!form.name.trim()) problems.name = "Its alerts need a name.";
  if (!form.metric.trim()) problems.metric = "Which number?";
  if (isCompared(form.comparator) && (form.threshold.trim() === "" || !Number.isFinite(Number(form.threshold))))
    problems.threshold = "A number, such as 5 or 1e-4.";
  const seconds = Number(form.wait) * UNITS[form.unit];
  const least = form.comparator === "no_data" ? SHORTEST_SILENCE : 0;
  if (form.wait.trim() === "" || !Number.isInteger(seconds) || seconds < least || seconds > 86_400)
    problems.for_seconds = `From ${least}${least ? " seconds" : ""} to 24 hours.`;
  if (form.scope === "run" && !form.run.trim()) problems.run = "Which run?";
  return problems;
}

/** What is watched, by a form without problems. */
export function draftOf(form: RuleForm): Draft {
  const isRun = form.scope === "run";
  return {
    metric: form.metric.trim(),
    comparator: form.comparator,
    threshold: isCompared(form.comparator) ? Number(form.threshold) : null,
    for_seconds: Number(form.wait) * UNITS[form.unit],
    run: isRun ? form.run.trim() : null,
    filter: isRun ? "" : form.filter.trim(),
  };
}

export function ruleOf(form: RuleForm, reason: string): SetAlertRule {
  const { name, severity, runbook, isEnabled } = form;
  return { ...draftOf(form), name: name.trim(), severity, runbook, is_enabled: isEnabled, reason };
}

/** A level that was pointed at, as short as its place on the axis allows. */
export const levelWord = (value: number): string => String(Number(value.toPrecision(3)));
