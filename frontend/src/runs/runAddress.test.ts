import { expect, test } from "vitest";
import { addressOf } from "@/runs/runAddress";

test("an archived run has its own address", () => {
  expect(addressOf({ id: 17, name: "cart", archived_at: null })).toBe("cart");
  expect(addressOf({ id: 17, name: "cart", archived_at: "2026-03-01T12:00:00Z" })).toBe("cart--17");
});
