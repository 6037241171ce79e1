import { expect, it } from "vitest";
import { runAt } from "./addresses";

it.each([
  ["/runs/cartpole", { name: "cartpole", tab: "" }],
  ["/runs/cartpole/", { name: "cartpole", tab: "" }],
  ["/runs/cartpole/fleet", { name: "cartpole", tab: "fleet" }],
  ["/runs/cartpole/groups/7", { name: "cartpole", tab: "groups/7" }],
  ["/runs/new-one", { name: "new-one", tab: "" }],
  ["/runs/new", null],
  ["/runs/new/", null],
  ["/runs", null],
  ["/runs/", null],
  ["/", null],
  ["/alerts", null],
])("reads %s", (pathname, about) => {
  expect(runAt(pathname)).toEqual(about);
});
