/** A short name of what a run rolls out. Pure. */

/** `CartPole-v1`; lessons of a language run; registered environments of an outside run, or its kind. */
export function environmentOf(run: { environment: string | null; kind: string }): string {
  if (run.environment) return run.environment.replace(/^gymnasium:/, "");
  return run.kind === "outside" ? "outside" : "–";
}
