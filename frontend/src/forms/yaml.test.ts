import { describe, expect, it } from "vitest";
import { lineAt, placesIn, readYaml, withValue, yamlOf } from "@/forms/yaml";

const TEXT = `# first run
fleet:
  num_workers: 2 # two
  resources: {}
policy:
  hidden_sizes: [64, 64]
environment:
  wrappers:
    - kind: module:gymnasium.wrappers:TimeLimit
      kwargs:
        max_episode_steps: 9
lessons:
  one:
    spec: task:sort
  one.more:
    spec: task:shopping
seed: 0
`;
const problemOf = (text: string) => {
  const { problem } = readYaml(text);
  return problem && [lineAt(text, problem.from), problem.message];
};

describe("YAML", () => {
  it("is written with lists of scalars on one line, and read again", () => {
    const config = { policy: { hidden_sizes: [64, 64] }, wrappers: [{ kind: "a", kwargs: {} }], note: "yes: no", kept: null };
    expect(yamlOf(config)).toContain("  hidden_sizes: [64, 64]\n");
    expect(readYaml(yamlOf(config)).config).toEqual(config);
  });

  it("may be JSON, or empty", () => {
    expect(readYaml('{"seed": 1, "fleet": {"num_workers": 2}}').config).toEqual({ seed: 1, fleet: { num_workers: 2 } });
    expect(readYaml("# nothing\n").config).toEqual({});
  });

  it.each([
    ["a tab as indentation", "fleet:\n\tnum_workers: 2\n", 2, /Tabs|Invalid YAML/],
    ["a duplicate key", "seed: 1\nnum_steps: 2\nseed: 3\n", 3, /Duplicate key/],
    ["an anchor", "fleet: &big\n  num_workers: 2\n", 1, /Anchors and aliases/],
    ["an alias", "seed: 1\nfleet: *big\n", 2, /alias/i],
    ["a tag", "seed: 1\nnote: !!python/object x\n", 2, /Tags/],
    ["a number that JSON cannot represent", "seed: 1\nkwargs:\n  high: .inf\n", 3, /finite/],
    ["an integer of more than 53 bits", "seed: 9007199254740993\n", 1, /53 bits/],
    ["an open list", "seed: 1\nsizes: [64\nnext: 1\n", 3, /Invalid YAML/],
    ["a list", "- seed\n", 1, /mapping is required/],
    ["a text", "seed\n", 1, /mapping is required/],
    ["two documents", "seed: 1\n---\nseed: 2\n", 2, /single document/],
  ])("with %s is refused at its line", (_name, text, line, message) => {
    expect(problemOf(text)).toEqual([line, expect.stringMatching(message)]);
  });

  it("that expands to a huge configuration is refused at once", () => {
    const levels = Array.from({ length: 9 }, (_, level) => `l${level + 1}: &l${level + 1} [${`*l${level},`.repeat(9)}]`);
    expect(problemOf(["l0: &l0 [x]", ...levels].join("\n"))).toEqual([1, expect.stringMatching(/Anchors and aliases/)]);
    expect(problemOf(`seed: 1\ndeep: ${"[".repeat(20_000)}`)).toEqual([2, expect.stringMatching(/too deeply/)]);
    expect(problemOf(`deep: ${"[\n".repeat(20_000)}`)).toEqual([1, expect.stringMatching(/too deeply/)]);
    expect(problemOf(`deep: ${"{a: ".repeat(60)}1${"}".repeat(60)}`)).toEqual([1, expect.stringMatching(/too deeply/)]);
    expect(problemOf("seed: 1\n".repeat(30_000))?.[1]).toMatch(/Too long: 240,000 characters/);
  });
});

describe("a path of the server", () => {
  const line = (path: string) => {
    const place = placesIn(TEXT)(path);
    return place && lineAt(TEXT, place.from);
  };

  it.each([
    ["fleet.num_workers", 3],
    ["policy.hidden_sizes[1]", 6],
    ["environment.wrappers[0]", 9],
    ["environment.wrappers[0].kwargs.max_episode_steps", 11],
    ["lessons.one.spec", 14],
    ["lessons.one.more.spec", 16],
    ["lessons.one.more.sampling.top_p", 15],
    ["seed", 17],
    ["fleet.missing", 2],
    ["missing", undefined],
  ])("%s is at line %s", (path, expected) => {
    expect(line(path)).toBe(expected);
  });
});

describe("a changed value", () => {
  it("keeps comments and the other lines", () => {
    expect(withValue(TEXT, "fleet.num_workers", 4)).toBe(TEXT.replace("num_workers: 2", "num_workers: 4"));
    expect(withValue(TEXT, "policy.hidden_sizes", [32])).toBe(TEXT.replace("[64, 64]", "[32]"));
    expect(withValue("seed:\n", "seed", 5)).toBe("seed: 5\n");
  });

  it("is added where it is missing, and quoted where it needs quotes", () => {
    expect(readYaml(withValue(TEXT, "buffer.batch_size", 8)).config).toMatchObject({ buffer: { batch_size: 8 }, seed: 0 });
    for (const value of ["a: b", "#", "", "1", "true", "- x", "two\nlines"]) {
      expect(readYaml(withValue("spec: x\nseed: 1\n", "spec", value)).config).toEqual({ spec: value, seed: 1 });
    }
    expect(readYaml(withValue("sizes:\n  - 1\n  - 2\n", "sizes", [3])).config).toEqual({ sizes: [3] });
  });
});
