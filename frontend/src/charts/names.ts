/** Keep names in an address, separated by commas; no name of a run or a metric holds one. Pure. */

export function namesOf(text: string | undefined): string[] {
  const names = (text ?? "").split(",").map((name) => name.trim());
  return [...new Set(names.filter(Boolean))];
}

/** The address's word for names; nothing for none. */
export function wordOf(names: readonly string[]): string | undefined {
  return names.length > 0 ? [...new Set(names)].join(",") : undefined;
}

/** The names with one more, or without it where it was there. */
export function toggled(names: readonly string[], name: string): string[] {
  return names.includes(name) ? names.filter((other) => other !== name) : [...names, name];
}

/** The word with a name in it, or without. */
export function switched(text: string | undefined, name: string, isOn: boolean): string | undefined {
  const others = namesOf(text).filter((other) => other !== name);
  return wordOf(isOn ? [...others, name] : others);
}
