import { expect, it } from "vitest";
import type { EnvironmentMixing, EnvironmentRow, LedgerAnswer, LedgerCounts } from "@/api/types";
import { environmentPanels, environmentViews, holdOf } from "./rows";

type EnvironmentLedger = LedgerAnswer["environments"][number];
const none = { accepted: 0, queued: 0, waiting: 0, leased: 0, served: 0, quarantined: 0, dropped: {}, balanced: true };
const ledger = (fields: Partial<EnvironmentLedger>, sequences: Partial<LedgerCounts> = {}): EnvironmentLedger => ({
  kind: "groups",
  env_id: 0,
  environment: "",
  ...none,
  ...fields,
  sequences: { ...none, ...sequences },
});
const math = { env_id: 0, wandb_name: "math_0" } as EnvironmentRow;

it("joins registration, mixing and ledger by environment id, in the unit of batches", () => {
  const mixing = [{ env_id: 0, debt: -3 }] as EnvironmentMixing[];
  const ledgers = [
    ledger(
      { accepted: 5, queued: 2, served: 2, dropped: { poison: 1 } },
      { accepted: 10, queued: 4, served: 4, dropped: { stale_version: 0, poison: 2 } },
    ),
    ledger({ env_id: 1, queued: 1 }, { queued: 4 }),
  ];
  expect(
    environmentViews([math], mixing, ledgers, [{ env_id: 0, environment: "", per_second: 0.5, newest_at: "2026-03-01T12:00:00Z" }]),
  ).toMatchObject([
    {
      key: "id:0",
      name: "math_0",
      mixing: { debt: -3 },
      queued: 4,
      served: 4,
      queueShare: 0.5,
      dropped: 2,
      dropShare: 0.2,
      perSecond: 0.5,
      reasons: [["poison", 2]],
    },
  ]);
});
it("counts refusals, latest reason first", () => {
  const at = (minute: number) => `2026-03-01T12:0${minute}:00Z`;
  const refused = {
    missing: { pushes: 7, groups: 0, newest_at: at(1), message: "body.tokens: Field required" },
    over_quota: { pushes: 2, groups: 20, newest_at: at(5), message: "words holds 10 groups" },
  };
  const [view, other] = environmentViews([{ ...math, refused }, { env_id: 1, refused: {} } as EnvironmentRow], [], [], []);
  expect([view?.refused, view?.refusals.map(([reason]) => reason)]).toEqual([27, ["over_quota", "missing"]]);
  expect([other?.refused, other?.refusals]).toEqual([0, []]);
});
it("includes fleet environments and unregistered ones", () => {
  const ledgers = [
    ledger({ kind: "fragments", env_id: null, environment: "gymnasium:CartPole-v1", accepted: 3 }),
    ledger({ env_id: null, accepted: 1 }),
  ];
  expect(
    environmentViews([], [], ledgers, [
      { env_id: null, environment: "gymnasium:CartPole-v1", per_second: 2, newest_at: "2026-03-01T12:00:00Z" },
    ]).map(({ name, perSecond }) => [name, perSecond]),
  ).toEqual([
    ["gymnasium:CartPole-v1", 2],
    ["without environment", null],
  ]);
});
const paused = { kind: "outside", status: "paused", status_changed_at: "2026-03-01T12:00:00Z" } as const;
const held = (held_at: string | null, newest_at?: string, connected = true) => {
  const environment = { env_id: 0, wandb_name: "math_0", refused: {}, connected, held_at } as unknown as EnvironmentRow;
  const rates = newest_at ? [{ env_id: 0, environment: "", per_second: 1, newest_at }] : [];
  const [view] = environmentViews([environment], [], [], rates);
  if (!view) throw new Error("no view");
  return view;
};

it.each([
  ["stopped", held("2026-03-01T12:00:02Z", "2026-03-01T12:00:05Z")],
  ["stopped", held("2026-03-01T12:00:02Z")],
  ["sending", held("2026-03-01T12:00:02Z", "2026-03-01T12:00:30Z")],
  ["sending", held(null, "2026-03-01T12:00:30Z")],
  ["unreached", held(null, "2026-03-01T12:00:05Z")],
  [null, held("2026-03-01T12:00:02Z", undefined, false)],
])("classifies an environment of a paused run as %s", (expected, view) => {
  expect(holdOf(view, paused)).toBe(expected);
});
it("holds back no environment of a running run or of a fleet", () => {
  const view = held(null, "2026-03-01T12:00:30Z");
  expect(holdOf(view, { ...paused, status: "running" })).toBeNull();
  expect(holdOf(view, { ...paused, kind: "fleet" })).toBeNull();
});
it("draws a line for each name of an environment, up to eight", () => {
  const named = (...names: string[]) => names.map((desired_name) => ({ desired_name }) as EnvironmentRow);
  const [scores] = environmentPanels(named("math", "math", "gsm8k:hard"));
  expect(scores?.source).toMatchObject({
    curves: [
      { name: "env/math/reward/mean", label: "math" },
      { name: "env/gsm8k_hard/reward/mean", label: "gsm8k:hard" },
    ],
  });
  const [, lengths] = environmentPanels(named(...Array.from({ length: 9 }, (_, i) => `e${i}`)));
  expect(lengths?.note).toBe("tokens, mean, 8 of 9 environments");
});
it("counts numbers without a series, latest problem first", () => {
  const ignored_numbers = {
    text: { values: 3, key: "reward", newest_at: "2026-03-01T12:00:00Z" },
    invalid_name: { values: 1, key: "p%", newest_at: "2026-03-01T12:01:00Z" },
  };
  const [view] = environmentViews([{ ...math, refused: {}, ignored_numbers } as EnvironmentRow], [], [], []);
  expect(view?.ignored.map(([problem, { values }]) => [problem, values])).toEqual([
    ["invalid_name", 1],
    ["text", 3],
  ]);
});
