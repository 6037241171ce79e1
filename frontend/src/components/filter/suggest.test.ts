import { expect, it } from "vitest";
import { askedAt, offers, type Qualifier, taken, term, type ValueRow } from "./suggest";

const row = (name: string, form: Qualifier["form"], operators: string[], choices: string[] = []): Qualifier => ({
  name,
  form,
  operators,
  choices,
  meaning: `${name}.`,
  example: `${name}:x`,
});
const ALL = [
  row("state", "choice", [":", "="], ["running", "paused"]),
  row("tag", "text", [":", "=", "~"]),
  row("step", "number", [":", ">"]),
  row("created", "time", [">", "<"]),
];
const labels = (text: string, values: ValueRow[] = []) => offers(askedAt(text, text.length, ALL), ALL, values).map(({ label }) => label);

it("offers qualifiers at the start of a term", () => {
  expect(labels("")).toEqual(["state:x", "tag:x", "step:x", "created:x"]);
  expect(labels("name~a st")).toEqual(["state:x", "step:x"]);
  expect(labels("-ta")).toEqual(["tag:x"]);
});

it("offers values after an operator or a comma", () => {
  expect(labels("state:")).toEqual(["running", "paused"]);
  expect(labels("state:running,pa")).toEqual(["paused"]);
});

it("accepts a colon before a comparison", () => {
  const asked = askedAt("step:>=1", 8, ALL);
  expect([asked.qualifier?.name, asked.part]).toEqual(["step", "1"]);
});

it("quotes values of terms", () => {
  expect([term("env", ">3"), term("env", "a=b")]).toEqual(['env:">3"', 'env:"a=b"']);
  expect([term("env", "math"), term("env", 'a "b"'), term("score", 0.5, "<=")]).toEqual(["env:math", 'env:"a b"', "score<=0.5"]);
});

it("replaces only the partial term", () => {
  const text = "tag:ab state:running";
  const asked = askedAt(text, 6, ALL);
  const [offer] = offers(asked, ALL, [{ value: "ablation", count: 2 }]);
  expect(taken(text, asked, offer!)).toEqual({ text: "tag:ablation state:running", cursor: 12 });
});

it("quotes values with spaces", () => {
  const asked = askedAt('tag:"two w', 10, ALL);
  expect([asked.part, asked.start]).toEqual(["two w", 4]);
  const [offer] = offers(asked, ALL, [{ value: "two words", count: 1 }]);
  expect(taken('tag:"two w', asked, offer!).text).toBe('tag:"two words" ');
});

it("offers the keys of a qualifier, and their values", () => {
  const all = [row("meta", "value", [":", ">"]), row("meta.topic", "value", [":", ">"]), row("meta.Level", "value", [":", ">"])];
  const at = (text: string) => askedAt(text, text.length, all);
  const inserts = (text: string, values: ValueRow[] = []) => offers(at(text), all, values).map(({ insert }) => insert);
  expect(inserts("me")).toEqual(["meta.", "meta.topic:", "meta.Level:"]);
  expect(inserts("meta.l")).toEqual(["meta.Level:"]);
  expect(inserts("meta.topic:", [{ value: "long division", count: 2 }])).toEqual(['"long division" ']);
  expect([at("meta.Level:>3").qualifier?.name, at("meta.Level:>3").part]).toEqual(["meta.Level", "3"]);
});
