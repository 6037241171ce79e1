import { expect, it } from "vitest";
import type { EnvironmentMixing, EnvironmentRow, LedgerAnswer } from "@/api/types";
import { environmentViews } from "./rows";

const ledger = (fields: Partial<LedgerAnswer["environments"][number]>): LedgerAnswer["environments"][number] => ({
  kind: "groups",
  env_id: 0,
  environment: "",
  accepted: 0,
  queued: 0,
  waiting: 0,
  leased: 0,
  served: 0,
  quarantined: 0,
  dropped: {},
  balanced: true,
  ...fields,
});
const math = { env_id: 0, wandb_name: "math_0" } as EnvironmentRow;

it("joins registration, mixing and ledger by environment id", () => {
  const mixing = [{ env_id: 0, debt: -3 }] as EnvironmentMixing[];
  const ledgers = [
    ledger({ accepted: 10, queued: 4, served: 4, dropped: { stale_version: 0, poison: 2 } }),
    ledger({ env_id: 1, queued: 4 }),
  ];
  expect(
    environmentViews([math], mixing, ledgers, [{ env_id: 0, environment: "", per_second: 0.5, newest_at: "2026-03-01T12:00:00Z" }]),
  ).toMatchObject([
    {
      key: "id:0",
      name: "math_0",
      mixing: { debt: -3 },
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
    missing: { pushes: 7, newest_at: at(1), message: "body.tokens: Field required" },
    over_quota: { pushes: 2, newest_at: at(5), message: "words holds 10 groups" },
  };
  const [view, other] = environmentViews([{ ...math, refused }, { env_id: 1, refused: {} } as EnvironmentRow], [], [], []);
  expect([view?.refused, view?.refusals.map(([reason]) => reason)]).toEqual([9, ["over_quota", "missing"]]);
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
