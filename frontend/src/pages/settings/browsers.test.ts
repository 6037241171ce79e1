import { expect, it } from "vitest";
import { browserName } from "./browsers";

it("names known browsers and systems", () => {
  expect(browserName("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0")).toBe("Firefox 140 on Linux");
  expect(
    browserName(
      "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36 Edg/131.0.0.0",
    ),
  ).toBe("Edge 131 on Windows");
  expect(
    browserName(
      "Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.1 Mobile/15E148 Safari/604.1",
    ),
  ).toBe("Safari 18 on iOS");
});

it("truncates unknown user agents", () => {
  expect(browserName("curl/8.1")).toBe("curl/8.1");
  expect(browserName("x".repeat(200))).toHaveLength(61);
  expect(browserName("")).toContain("admin");
});
