/** State of the launch form: start, answers, tiers and errors. */

import { useEffect, useMemo, useState } from "react";
import { ApiProblem } from "@/api/problems";
import { visible } from "@/format";
import { answersOf, collect } from "@/forms/answers";
import { placeErrors, withoutErrorAt } from "@/forms/errors";
import { type JsonSchema, sectionsOf } from "@/forms/fields";
import type { Answer, Answers } from "@/forms/rows";
import { loadDraft, saveDraft } from "@/pages/launch/draft";
import { type Config, kindOf, sectionsFor } from "@/pages/launch/kinds";
import { changedPaths, filled, formChanges, NAME, NAME_HELP, sectionsWithErrors, tiersOf } from "@/pages/launch/tiers";

/** The start of the form: `key` identifies it, `config` is complete. */
export type Start = { key: string; config: Config };
export type Errors = { fields: Record<string, string>; loose: string[] };

const NO_ERRORS: Errors = { fields: {}, loose: [] };

/** The answers of the form, and the configuration that they describe. */
function useAnswers(schema: JsonSchema, start: Start) {
  const kind = kindOf(start.config);
  const sections = useMemo(() => sectionsFor(sectionsOf(schema), kind), [schema, kind]);
  const defaults = useMemo(() => answersOf(sections, {}), [sections]);
  const standard = useMemo(() => answersOf(sections, start.config), [sections, start]);
  const base = useMemo(() => collect(sections, standard).config, [sections, standard]);
  const draft = useMemo(() => loadDraft(start.key), [start.key]);
  const [name, setName] = useState(draft?.name ?? "");
  const [answers, setAnswers] = useState<Answers>({ ...standard, ...draft?.answers });
  const [open, setOpen] = useState<string[]>(draft?.open ?? []);
  const { config, problems } = useMemo(() => collect(sections, answers), [sections, answers]);
  const whole = useMemo(() => filled(sections, config, problems, base), [sections, config, problems, base]);
  const changes = useMemo(() => formChanges(sections, base, whole, problems), [sections, base, whole, problems]);
  const edited = Object.keys(standard).filter((path) => answers[path] !== standard[path]);
  const isTouched = name !== "" || edited.length > 0;

  useEffect(() => {
    const kept = Object.fromEntries(
      Object.keys(standard)
        .filter((path) => answers[path] !== standard[path])
        .map((path) => [path, answers[path] ?? ""]),
    );
    saveDraft(start.key, isTouched || open.length > 0 ? { name, answers: kept, open } : null);
  }, [start.key, name, answers, open, standard, isTouched]);
  return {
    kind,
    sections,
    defaults,
    standard,
    base,
    name,
    setName,
    answers,
    setAnswers,
    open,
    setOpen,
    config,
    problems,
    whole,
    changes,
    isTouched,
  };
}

export function useLaunch(schema: JsonSchema, start: Start) {
  const form = useAnswers(schema, start);
  const { sections, standard, name, answers, problems, whole, changes, setAnswers, setOpen, setName } = form;
  const [errors, setErrors] = useState(NO_ERRORS);
  const [query, setQuery] = useState("");
  const tiers = useMemo(
    () => tiersOf(sections, { whole, changed: changedPaths(sections, changes), errors: errors.fields, query }),
    [sections, whole, changes, errors, query],
  );
  const expand = (names: string[]) => setOpen((old) => [...new Set([...old, ...names])]);
  /** Show errors: their sections open, and the search ends. */
  const fail = (fields: Record<string, string>, loose: string[] = []) => {
    setErrors({ fields, loose });
    expand(sectionsWithErrors(sections, fields));
    if (Object.keys(fields).length > 0) setQuery("");
  };
  /** Change a field; the errors at `key`, by default those of the whole field, are no longer current. */
  const change = (path: string, answer: Answer, key = path) => {
    setAnswers((old) => ({ ...old, [path]: answer }));
    setErrors((old) => ({ ...old, fields: withoutErrorAt(old.fields, key) }));
  };
  const reset = () => {
    setName("");
    setAnswers(standard);
    setErrors(NO_ERRORS);
  };
  const take = (taken: Config) => setAnswers(answersOf(sections, taken));
  /** Return whether the form is valid as far as the client can check. */
  const validate = (needsName: boolean): boolean => {
    const wrong = { ...problems };
    if (needsName && !NAME.test(name)) wrong.name = name ? NAME_HELP : "Enter a name.";
    fail(wrong);
    return Object.keys(wrong).length === 0;
  };
  const place = (wrong: { field: string; message: string }[], rest: string[] = []) => {
    const { placed, loose } = placeErrors(sections, answers, wrong);
    fail(placed, [...loose, ...rest]);
  };
  const refuse = (problem: Error) => {
    if (!(problem instanceof ApiProblem)) return fail({}, [problem.message]);
    if (problem.code === "run_exists") return fail({ name: visible(problem.message) });
    place(problem.fields, problem.fields.length === 0 ? [problem.message] : []);
  };
  return { ...form, tiers, query, setQuery, expand, errors, change, reset, take, validate, refuse, place };
}

export type LaunchState = ReturnType<typeof useLaunch>;
