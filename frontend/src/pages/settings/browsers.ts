/** Derive a browser name from its user agent. Pure. */

const BROWSERS: [RegExp, string][] = [
  [/\bEdg(?:e|A|iOS)?\/(\d+)/, "Edge"],
  [/\bOPR\/(\d+)/, "Opera"],
  [/\bFirefox\/(\d+)/, "Firefox"],
  [/\b(?:Headless)?Chrom(?:e|ium)\/(\d+)/, "Chrome"],
  [/\bVersion\/(\d+)[\d.]* .*Safari\//, "Safari"],
];
const SYSTEMS: [RegExp, string][] = [
  [/Android/, "Android"],
  [/iPhone|iPad/, "iOS"],
  [/Mac OS X/, "macOS"],
  [/Windows/, "Windows"],
  [/CrOS/, "ChromeOS"],
  [/Linux/, "Linux"],
];

/** `Firefox 140 on Linux`; an unknown user agent is returned unchanged. */
export function browserName(agent: string): string {
  if (!agent) return "Browser, through the Django admin";
  const system = SYSTEMS.find(([sign]) => sign.test(agent))?.[1];
  for (const [sign, name] of BROWSERS) {
    const found = sign.exec(agent);
    if (found) return `${name} ${found[1]}${system ? ` on ${system}` : ""}`;
  }
  return agent.length > 60 ? `${agent.slice(0, 60)}…` : agent;
}
