/** Read from an address which run it is about, before there is a router. Pure. */

export type RunAddress = {
  name: string;
  /** Empty: its overview. */
  tab: string;
};

/** Runs are lists as well (`/runs`), and are launched (`/runs/new`). */
const RUN = /^\/runs\/(?!new\/?$)([^/]+)\/?(.*)$/;

export function runAt(pathname: string): RunAddress | null {
  const [, name, tab] = RUN.exec(pathname) ?? [];
  return name === undefined || tab === undefined ? null : { name, tab };
}
