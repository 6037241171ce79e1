import { expect, it } from "vitest";
import { codeAt, pageCode, tabCode } from "./code";

it.each([
  ["/", [pageCode.runs]],
  ["/runs", [pageCode.runs]],
  ["/runs/new", [pageCode.launch]],
  ["/settings", [pageCode.settings]],
  ["/runs/cartpole", [pageCode.run, tabCode.overview]],
  ["/runs/cartpole/fleet", [pageCode.run, tabCode.fleet]],
  ["/runs/cartpole/groups/7", [pageCode.run, tabCode.groups]],
  ["/runs/cartpole/toString", [pageCode.run]],
  ["/login", []],
  ["/no/such/page", []],
])("lists the code of %s", (pathname, code) => {
  expect(codeAt(pathname)).toEqual(code);
});
