/** Locate JSON syntax errors, because browsers' messages differ and often lack a position. Pure. */

type Wanted = "a value" | "a name in quotes" | "a colon" | "a comma or the end";

const TOKEN =
  /[{}[\],:]|"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])|(?:true|false|null)(?!\w)/y;
const CLOSES: Record<string, string> = { "}": "{", "]": "[" };

/** Offset of the first invalid token of invalid JSON, and the kind of token expected there. */
export function errorPosition(text: string): { offset: number; wanted: Wanted } {
  const open: string[] = [];
  let wanted: Wanted = "a value";
  let mayClose = false;
  let offset = 0;
  for (;;) {
    while (" \t\r\n".includes(text[offset] ?? "x")) offset += 1;
    TOKEN.lastIndex = offset;
    const token = TOKEN.exec(text)?.[0];
    if (token === undefined) return { offset, wanted };
    if (token in CLOSES) {
      if (!mayClose || open.pop() !== CLOSES[token]) return { offset, wanted };
      [wanted, mayClose] = ["a comma or the end", open.length > 0];
    } else if (wanted === "a comma or the end") {
      if (token !== "," || open.length === 0) return { offset, wanted };
      [wanted, mayClose] = [open.at(-1) === "{" ? "a name in quotes" : "a value", false];
    } else if (wanted === "a colon") {
      if (token !== ":") return { offset, wanted };
      [wanted, mayClose] = ["a value", false];
    } else if (wanted === "a name in quotes") {
      if (!token.startsWith('"')) return { offset, wanted };
      [wanted, mayClose] = ["a colon", false];
    } else if (token === "{" || token === "[") {
      open.push(token);
      [wanted, mayClose] = [token === "{" ? "a name in quotes" : "a value", true];
    } else if (token === "," || token === ":") {
      return { offset, wanted };
    } else {
      [wanted, mayClose] = ["a comma or the end", open.length > 0];
    }
    offset += token.length;
  }
}
