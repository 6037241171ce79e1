import { describe, expect, it } from "vitest";
import { isPending } from "@/pages/run/fleet/api";
import { frames, plain, wantedLine } from "./logText";

const matching = (lines: string[], words: string) => lines.filter((line) => wantedLine(words)?.(line));

describe("log lines", () => {
  it("lose their escape sequences", () => {
    expect(plain("\u001b[1;31mred\u001b[0m alert")).toBe("red alert");
    expect(plain("\u001b]0;title\u0007after")).toBe("after");
    expect(plain("cut \u001b[3")).toBe("cut ");
  });
  it("show deceptive characters", () => {
    expect(plain("a\u202eb\u0000")).toBe("a⟨U+202E⟩b⟨U+0000⟩");
    expect(plain("<script>alert(1)</script>")).toBe("<script>alert(1)</script>");
  });
  it("are found case-insensitively", () => {
    expect(matching(["One Error", "fine"], " error ")).toEqual(["One Error"]);
    expect(matching(["a", "b"], "")).toEqual(["a", "b"]);
  });
});

describe("recordings", () => {
  it("of text recordings have frames between form feeds", () => {
    expect(frames("at 0\nx\f\u001b[2Jat 1")).toEqual(["at 0\nx", "at 1"]);
    expect(frames("")).toEqual([]);
  });
  it("are polled often while one is in progress", () => {
    expect(isPending(undefined)).toBe(false);
    expect(isPending([{ state: "ready" }, { state: "failed" }])).toBe(false);
    expect(isPending([{ state: "ready" }, { state: "recording" }])).toBe(true);
  });
});

it("matches a regex between slashes and reports invalid ones", () => {
  const lines = ["step 1", "step 12", "WARN lost", "done"];
  expect(matching(lines, "/step \\d\\d/")).toEqual(["step 12"]);
  expect(matching(lines, "/warn|done/")).toEqual(["WARN lost", "done"]);
  expect(wantedLine("/(/")).toBeNull();
  expect(matching(lines, "/(/")).toEqual([]);
  expect(matching(["a / b", "c"], "/ b")).toEqual(["a / b"]);
});
