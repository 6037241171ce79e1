import { expect, it } from "vitest";
import { quickStarts } from "@/components/quickStarts";
import documentation from "../../../docs/howto/tokens.md?raw";

it("contains the server's URL, the run and the token", () => {
  for (const { text } of quickStarts("https://server.example:8443", "rd_secret", "gsm8k")) {
    expect(text).toContain("server.example:8443");
    expect(text).toContain("gsm8k");
    expect(text).toContain("rd_secret");
  }
});

it("reads the token from the environment without one", () => {
  const [curl, python, atropos] = quickStarts("http://localhost:8000", null, "a");
  expect(curl?.text).toContain("Bearer $ROLLDECK_TOKEN");
  expect(python?.text).toContain('os.environ["ROLLDECK_TOKEN"]');
  expect(atropos?.text).toContain('"http://env:$ROLLDECK_TOKEN@localhost:8000/atropos/a"');
});

it("matches the tested commands of the documentation", () => {
  const [curl] = quickStarts("$ROLLDECK_URL", null, "my-run");
  expect(documentation).toContain(`\`\`\`bash\n${curl?.text}\n\`\`\``);
});
