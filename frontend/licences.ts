/** Write down, beside what is built, which packages are in it and under which licences. */

import type { Plugin } from "vite";
import lock from "./package-lock.json";

type Locked = { version?: string; license?: string; dev?: boolean };

/** What of a lock file is built in: no package of developers. Pure. */
export function licencesOf(packages: Record<string, Locked>): { name: string; version: string; licence: string }[] {
  return Object.entries(packages)
    .filter(([place, { dev }]) => place !== "" && !dev)
    .map(([place, { version = "", license }]) => ({
      name: place.replace(/^.*node_modules\//, ""),
      version,
      licence: license ?? "not said",
    }))
    .sort((one, other) => one.name.localeCompare(other.name));
}

export function licences(): Plugin {
  return {
    name: "licences",
    apply: "build",
    generateBundle() {
      this.emitFile({ type: "asset", fileName: "licences.json", source: JSON.stringify(licencesOf(lock.packages)) });
    },
  };
}
