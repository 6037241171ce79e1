/** Parse the run from a URL before the router exists. Pure. */

export type RunAddress = {
  name: string;
  /** Empty for the overview. */
  tab: string;
};

/** `/runs` is the list of runs, and `/runs/new` the launch form. */
const RUN = /^\/runs\/(?!new\/?$)([^/]+)\/?(.*)$/;

export function runAt(pathname: string): RunAddress | null {
  const [, name, tab] = RUN.exec(pathname) ?? [];
  return name === undefined || tab === undefined ? null : { name, tab };
}
