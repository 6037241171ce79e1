/** Comma-separated names in a URL; names of runs and metrics never contain a comma. Pure. */

export function namesOf(text: string | undefined): string[] {
  const names = (text ?? "").split(",").map((name) => name.trim());
  return [...new Set(names.filter(Boolean))];
}

/** The URL parameter for names; undefined if empty. */
export function wordOf(names: readonly string[]): string | undefined {
  return names.length > 0 ? [...new Set(names)].join(",") : undefined;
}

/** Toggle a name in a list. */
export function toggled(names: readonly string[], name: string): string[] {
  return names.includes(name) ? names.filter((other) => other !== name) : [...names, name];
}

/** The hidden names that leave one name visible; none if it is the only visible one already. */
export function isolated(all: readonly string[], hidden: readonly string[], name: string): string[] {
  const others = all.filter((other) => other !== name);
  const isAlone = !hidden.includes(name) && others.every((other) => hidden.includes(other));
  return isAlone ? [] : others;
}

/** Toggle a name in a URL parameter. */
export function switched(text: string | undefined, name: string, isOn: boolean): string | undefined {
  const others = namesOf(text).filter((other) => other !== name);
  return wordOf(isOn ? [...others, name] : others);
}
