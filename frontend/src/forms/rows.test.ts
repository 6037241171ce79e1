import { describe, expect, it } from "vitest";
import { answersOf, collect, newRow } from "./answers";
import { errorAt, fieldsWithErrors, homeOf, placeErrors, withoutErrorAt } from "./errors";
import { type JsonSchema, sectionsOf } from "./fields";
import { answerOfRows, duplicated, freeName, moved, type Row, renamed, requirementsOf, rowsOf } from "./rows";

const schema: JsonSchema = {
  $defs: {
    LessonConfig: {
      type: "object",
      properties: {
        spec: { title: "Environment", type: "string", pattern: "^[a-z_]+:\\w+$", "x-essential": true },
        requires: { title: "Requires", type: "array", default: [], items: { $ref: "#/$defs/RequirementConfig" } },
        sampling: { $ref: "#/$defs/SamplingConfig", default: { max_tokens: 32 } },
      },
    },
    RequirementConfig: {
      type: "object",
      properties: {
        lesson: { type: "string", pattern: "^[a-z][\\w.-]*$" },
        min_success: { type: "number", minimum: 0, maximum: 1, default: 0 },
      },
    },
    SamplingConfig: { type: "object", properties: { max_tokens: { title: "Longest turn", type: "integer", minimum: 1, default: 16 } } },
  },
  type: "object",
  properties: {
    language: {
      type: "object",
      properties: {
        lessons: {
          title: "Lessons",
          type: "object",
          propertyNames: { pattern: "^[A-Za-z0-9][\\w.-]{0,63}$" },
          additionalProperties: { $ref: "#/$defs/LessonConfig" },
          "x-order": "language.lesson_order",
        },
        lesson_order: { title: "Order", type: "array", items: { type: "string" }, default: [] },
      },
    },
  },
};
const sections = sectionsOf(schema);
const lessons = sections[0]?.fields[0] ?? expect.fail("no field");
const config = {
  language: {
    lessons: {
      easy: { spec: "task:sort", requires: [], sampling: { max_tokens: 8 } },
      "easy.2": { spec: "task:sort", requires: [{ lesson: "easy", min_success: 0.5 }], sampling: { max_tokens: 8 } },
      "3": { spec: "task:add", requires: [], sampling: { max_tokens: 4 } },
    },
    lesson_order: ["easy", "easy.2", "3"],
  },
};
const start = () => rowsOf(answersOf(sections, config)["language.lessons"]) ?? [];
const read = (rows: Row[]) => collect(sections, { "language.lessons": answerOfRows(rows) });
const names = (rows: Row[]) => rows.map(({ name }) => name);

describe("a table of objects", () => {
  it("is one field, which holds the order of its names", () => {
    expect(sections[0]?.fields.map(({ path, kind, order }) => [path, kind, order])).toEqual([
      ["language.lessons", "table", "language.lesson_order"],
    ]);
    expect(lessons.columns?.map(({ path, kind, title, default: given }) => [path, kind, title, given])).toEqual([
      ["spec", "text", "Environment", undefined],
      ["requires", "list", "Requires", []],
      ["sampling.max_tokens", "integer", "Longest turn", 32],
    ]);
  });
  it("gives the configuration back, in the order of the names and not of JavaScript", () => {
    expect(names(start())).toEqual(["easy", "easy.2", "3"]);
    expect(read(start())).toEqual({ config, problems: {} });
  });
  it("reads names that the order omits after the others", () => {
    const other = { language: { ...config.language, lesson_order: ["3", "gone"] } };
    expect(names(rowsOf(answersOf(sections, other)["language.lessons"]) ?? [])).toEqual(["3", "easy", "easy.2"]);
  });
  it("moves, duplicates and adds rows", () => {
    expect(names(moved(start(), 2, -1))).toEqual(["easy", "3", "easy.2"]);
    expect(names(moved(start(), 0, -1))).toEqual(["easy", "easy.2", "3"]);
    expect(read(moved(start(), 2, -1)).config).toMatchObject({ language: { lesson_order: ["easy", "3", "easy.2"] } });
    expect(names(duplicated(start(), 0))).toEqual(["easy", "easy-2", "easy.2", "3"]);
    expect(duplicated(start(), 0)[1]?.answers).toEqual(start()[0]?.answers);
    expect(freeName([...start(), newRow(lessons, "easy-2")], "easy-2")).toBe("easy-3");
    expect(newRow(lessons, "new").answers).toEqual({ spec: "", requires: "[]", "sampling.max_tokens": "32" });
  });
  it("renames a row together with its requirements", () => {
    const rows = renamed(start(), 0, "simple");
    expect(names(rows)).toEqual(["simple", "easy.2", "3"]);
    expect(requirementsOf(rows[1] ?? expect.fail())).toEqual([{ lesson: "simple", success: "0.5" }]);
    const twice = [...start(), newRow(lessons, "easy")];
    expect(requirementsOf(renamed(twice, 3, "other")[1] ?? expect.fail())).toEqual([{ lesson: "easy", success: "0.5" }]);
  });
  it("names each invalid field of each row", () => {
    const rows = start().map((row) => ({ ...row, answers: { ...row.answers, spec: "nope", "sampling.max_tokens": "0" } }));
    const wrong = [...rows, { ...newRow(lessons, "easy"), name: "easy" }, newRow(lessons, ""), newRow(lessons, "a b")];
    const requires = answerOfRows([{ name: "", answers: { lesson: "", min_success: "2" } }]);
    wrong[0] = { ...(wrong[0] as Row), answers: { ...(wrong[0] as Row).answers, requires } };
    const { config: rest, problems } = read(wrong);
    expect(rest).toEqual({});
    expect(Object.keys(problems).sort()).toEqual(
      [
        "language.lessons[0].requires[0].lesson",
        "language.lessons[0].requires[0].min_success",
        ...[0, 1, 2].flatMap((at) => [`language.lessons[${at}].spec`, `language.lessons[${at}].sampling.max_tokens`]),
        ...[3, 4, 5].flatMap((at) => [`language.lessons[${at}].name`, `language.lessons[${at}].spec`]),
      ].sort(),
    );
    expect(problems["language.lessons[3].name"]).toBe("Another row has this name.");
    expect(collect(sections, { "language.lessons": '{"a": ' }).problems).toHaveProperty(["language.lessons"]);
  });
});

describe("errors of rows", () => {
  const answers = answersOf(sections, config);
  it.each([
    ["language.lessons.easy.spec", "language.lessons[0].spec"],
    ["language.lessons.easy.2.spec", "language.lessons[1].spec"],
    ["language.lessons.easy.2.requires[0].min_success", "language.lessons[1].requires[0].min_success"],
    ["language.lessons.easy.2.requires", "language.lessons[1].requires"],
    ["language.lessons.3.sampling.max_tokens", "language.lessons[2].sampling.max_tokens"],
    ["language.lessons.3.sampling.maxtokens", "language.lessons[2].name"],
    ["language.lessons.easy", "language.lessons[0].name"],
    ["language.lessons.gone.spec", "language.lessons"],
    ["language.nope", undefined],
  ])("%s belongs to %s", (path, home) => {
    expect(
      homeOf(
        sections.flatMap(({ fields }) => fields),
        answers,
        path,
      ),
    ).toBe(home);
  });
  it("of the order belong to the table", () => {
    const { placed } = placeErrors(sections, answers, [{ field: "config.language.lesson_order[1]", message: "Wrong." }]);
    expect(placed).toEqual({ "language.lessons": "Wrong." });
  });
  it("are found and removed with those inside", () => {
    const errors = { "a[1].b": "One.", "a[1].c[0].d": "Two.", "a[10].b": "Three.", ab: "Four." };
    expect(errorAt(errors, "a[1]")).toBe("One. Two.");
    expect(errorAt(errors, "b")).toBeUndefined();
    expect(withoutErrorAt(errors, "a[1]")).toEqual({ "a[10].b": "Three.", ab: "Four." });
    expect(
      fieldsWithErrors(
        [
          { ...lessons, path: "a" },
          { ...lessons, path: "b" },
        ],
        errors,
      ),
    ).toEqual(["a"]);
  });
});
