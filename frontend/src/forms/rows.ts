/** Rows of a table or list of objects: their text in a form, and changes of them. Pure. */

export type Answer = string | boolean;
/** The text of each field by path; booleans for switches. */
export type Answers = Record<string, Answer>;
/** An object with its name in a table; rows of lists have no name. */
export type Row = { name: string; answers: Answers };

/** Return the rows of a field's text; null if it is other text, such as unfinished JSON. */
export function rowsOf(answer: Answer | undefined): Row[] | null {
  try {
    const rows: unknown = JSON.parse(String(answer || "[]"));
    return Array.isArray(rows) && rows.every((row) => typeof row?.name === "string" && typeof row.answers === "object") ? rows : null;
  } catch {
    return null;
  }
}

export function answerOfRows(rows: Row[]): string {
  return JSON.stringify(rows);
}

/** Return the rows with one moved up (`by` −1) or down (1); unchanged at the ends. */
export function moved<T>(rows: T[], at: number, by: -1 | 1): T[] {
  const to = at + by;
  const row = rows[at];
  if (row === undefined || to < 0 || to >= rows.length) return rows;
  const rest = rows.filter((_, other) => other !== at);
  return [...rest.slice(0, to), row, ...rest.slice(to)];
}

/** Return a name that no row has: the wanted name, or the name with a number. */
export function freeName(rows: Row[], wanted: string): string {
  const taken = new Set(rows.map(({ name }) => name));
  if (!taken.has(wanted)) return wanted;
  const [, stem = wanted] = /^(.*?)(?:-\d+)?$/.exec(wanted) ?? [];
  let number = 2;
  while (taken.has(`${stem}-${number}`)) number += 1;
  return `${stem}-${number}`;
}

/** Return the rows with a copy below the copied row. */
export function duplicated(rows: Row[], at: number): Row[] {
  const row = rows[at];
  if (row === undefined) return rows;
  return [...rows.slice(0, at + 1), { ...row, name: freeName(rows, row.name) }, ...rows.slice(at + 1)];
}

/** The column whose rows name other rows of the same table. */
const REFERENCES = "requires";

/** Return the names that a row requires, with the text of their minimum success. */
export function requirementsOf(row: Row): { lesson: string; success: string }[] {
  return (rowsOf(row.answers[REFERENCES]) ?? []).map(({ answers }) => ({
    lesson: String(answers.lesson ?? ""),
    success: String(answers.min_success ?? ""),
  }));
}

/** Return the rows with another name for one; rows that require it follow. */
export function renamed(rows: Row[], at: number, name: string): Row[] {
  const old = rows[at]?.name;
  const isShared = rows.some((row, other) => other !== at && row.name === old);
  return rows.map((row, other) => {
    const own = other === at ? { ...row, name } : row;
    const required = rowsOf(own.answers[REFERENCES]);
    if (!old || isShared || !required?.some(({ answers }) => answers.lesson === old)) return own;
    const follow = required.map((each) => (each.answers.lesson === old ? { ...each, answers: { ...each.answers, lesson: name } } : each));
    return { ...own, answers: { ...own.answers, [REFERENCES]: answerOfRows(follow) } };
  });
}
