/** State of the launch form: start, answers and errors. */

import { useEffect, useMemo, useState } from "react";
import { ApiProblem } from "@/api/problems";
import { visible } from "@/format";
import { type Answers, answersOf, collect, type JsonSchema, placeErrors, type Section, sectionsOf } from "@/forms/fields";
import { changesOf } from "@/pages/launch/changes";
import { loadDraft, saveDraft } from "@/pages/launch/draft";

export type Config = Record<string, unknown>;
export type Kind = "fleet" | "language";
/** The start of the form: `key` identifies it, `config` is complete. */
export type Start = { key: string; config: Config };
export type Errors = { fields: Record<string, string>; loose: string[] };

export const NAME = /^[a-zA-Z0-9_-]{1,80}$/;
export const NAME_HELP = "Letters, digits, - and _; part of the run's URL.";
const NO_ERRORS: Errors = { fields: {}, loose: [] };
/** Parts that a language run replaces by lessons. */
const OF_FLEETS = ["environment", "policy", "evaluation"];

/** The form sections for a kind of run. */
export function sectionsFor(all: Section[], kind: Kind): Section[] {
  if (kind === "fleet") return all.filter((section) => !section.optionalPart);
  const rest = all.filter((section) => !OF_FLEETS.includes(section.name));
  const isOwn = (section: Section) => section.optionalPart === "language";
  return [...rest.filter(isOwn), ...rest.filter((section) => !isOwn(section))];
}

export function kindOf(config: Config): Kind {
  return config.language ? "language" : "fleet";
}

export function useLaunch(schema: JsonSchema, start: Start) {
  const all = useMemo(() => sectionsOf(schema), [schema]);
  const kind = kindOf(start.config);
  const sections = useMemo(() => sectionsFor(all, kind), [all, kind]);
  const standard = useMemo(() => answersOf(sections, start.config), [sections, start]);
  const base = useMemo(() => collect(sections, standard).config, [sections, standard]);
  const draft = useMemo(() => loadDraft(start.key), [start.key]);
  const [name, setName] = useState(draft?.name ?? "");
  const [answers, setAnswers] = useState<Answers>({ ...standard, ...draft?.answers });
  const [errors, setErrors] = useState(NO_ERRORS);
  const { config, problems } = useMemo(() => collect(sections, answers), [sections, answers]);
  const edited = Object.keys(standard).filter((path) => answers[path] !== standard[path]);
  const isTouched = name !== "" || edited.length > 0;

  useEffect(() => {
    const kept = Object.fromEntries(
      Object.keys(standard)
        .filter((path) => answers[path] !== standard[path])
        .map((path) => [path, answers[path] ?? ""]),
    );
    saveDraft(start.key, isTouched ? { name, answers: kept } : null);
  }, [start.key, name, answers, standard, isTouched]);

  const change = (path: string, answer: string | boolean) => {
    setAnswers((old) => ({ ...old, [path]: answer }));
    setErrors((old) => ({ ...old, fields: Object.fromEntries(Object.entries(old.fields).filter(([each]) => each !== path)) }));
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
    setErrors({ fields: wrong, loose: [] });
    return Object.keys(wrong).length === 0;
  };
  const refuse = (problem: Error) => {
    if (!(problem instanceof ApiProblem)) return setErrors({ fields: {}, loose: [problem.message] });
    if (problem.code === "run_exists") return setErrors({ fields: { name: visible(problem.message) }, loose: [] });
    place(problem.fields, problem.fields.length === 0 ? [problem.message] : []);
  };
  const place = (wrong: { field: string; message: string }[], rest: string[] = []) => {
    const { placed, loose } = placeErrors(sections, wrong);
    setErrors({ fields: placed, loose: [...loose, ...rest] });
  };
  const changes = useMemo(() => changesOf(base, config), [base, config]);
  return {
    all,
    kind,
    sections,
    standard,
    base,
    name,
    setName,
    answers,
    change,
    config,
    problems,
    changes,
    errors,
    isTouched,
    reset,
    take,
    validate,
    refuse,
    place,
  };
}

export type LaunchState = ReturnType<typeof useLaunch>;
