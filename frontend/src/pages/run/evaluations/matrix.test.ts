import { expect, test } from "vitest";
import type { EvaluationRow } from "@/api/types";
import { COLUMNS, cellText, matrixOf } from "@/pages/run/evaluations/matrix";

function evaluation(lesson: string, step: number, success: number | null, fields: Partial<EvaluationRow> = {}): EvaluationRow {
  const interval = (value: number) => ({ estimate: value, low: value - 0.05, high: value + 0.05 });
  return {
    id: `${lesson}-${step}`,
    lesson,
    round: step + 1,
    state: success === null ? "queued" : "done",
    epoch: 1,
    due_step: step,
    policy_step: success === null ? -2 : step,
    created_at: "2026-01-01T00:00:00Z",
    finished_at: null,
    worker: "w0",
    attempts: 1,
    reason: "",
    figures:
      success === null
        ? null
        : {
            problems: 64,
            generations: 4,
            successes: 60,
            success: interval(success),
            pass_at: { "1": success, "4": 0.99 },
            reward: interval(success),
            tokens: 0,
            truncated: 0,
            seconds: 1,
          },
    pass_at: success === null ? {} : { "1": interval(success), "4": interval(0.9) },
    samples: [],
    ...fields,
  } as EvaluationRow;
}

test("versions are ordered columns", () => {
  const { columns, cells } = matrixOf([evaluation("a", 20, 0.8), evaluation("b", 0, 0.1), evaluation("a", 0, 0.5)]);
  expect(columns.map(({ step }) => step)).toEqual([0, 20]);
  expect(cells.get("b")?.has("1.20")).toBe(false);
});

test("marks only significant changes", () => {
  const { cells } = matrixOf([evaluation("a", 0, 0.5), evaluation("a", 5, 0.56), evaluation("a", 10, 0.9), evaluation("a", 15, 0.6)]);
  expect([...(cells.get("a")?.values() ?? [])].map(({ change }) => change)).toEqual([null, null, "better", "worse"]);
});

test("describes intervals, pass@k and pending evaluations", () => {
  const { cells } = matrixOf([evaluation("a", 0, 0.5), evaluation("b", 0, null)]);
  const words = (lesson: string) => cellText(cells.get(lesson)!.get("1.0")!);
  expect(words("a")).toBe("a at version 0: success 0.5, between 0.45 and 0.55 of 64 problems, pass@4 99 %");
  expect(words("b")).toBe("b at version 0: waiting for a worker");
});

test("a failed evaluation shows its attempts and its error", () => {
  const failed = evaluation("a", 0, null, { state: "failed", attempts: 5, reason: "no simulator" });
  const again = evaluation("b", 0, null, { attempts: 1, reason: "no simulator" });
  const { cells } = matrixOf([failed, again]);
  expect(cellText(cells.get("a")!.get("1.0")!)).toBe("a at version 0: failed after 5 attempts: no simulator");
  expect(cellText(cells.get("b")!.get("1.0")!)).toBe("b at version 0: waiting for a worker; the last attempt failed: no simulator");
});

test("shows the newest versions, with separate columns per epoch", () => {
  const many = Array.from({ length: 20 }, (_, at) => evaluation("a", at, 0.5));
  const { columns, epochs } = matrixOf([...many, evaluation("a", 3, 0.5, { epoch: 2, round: 99 })]);
  expect(columns).toHaveLength(COLUMNS);
  expect(columns.at(-1)?.key).toBe("2.3");
  expect(epochs).toBe(2);
});

test("shows pass@4 rates and baseline differences", () => {
  const baseline = [evaluation("a", 0, 0.2), evaluation("a", 10, 0.9)];
  const at = (k: number) =>
    matrixOf([evaluation("a", 5, 0.5)], { k, baseline })
      .cells.get("a")!
      .get("1.5")!;
  expect(at(4).rate?.estimate).toBe(0.9);
  expect(at(1).against?.row.policy_step).toBe(0);
  expect(cellText(at(1))).toContain("▲ +30 (+23 to +37) points compared with the baseline at version 0");
  expect(
    matrixOf([evaluation("b", 5, 0.5)], { k: 1, baseline })
      .cells.get("b")!
      .get("1.5")!.against,
  ).toBeNull();
});
