/** Say in few words what a run rolls out. Pure. */

/** `CartPole-v1`; a language run its lessons; an outside run who registered, or that it is one. */
export function environmentOf(run: { environment: string | null; kind: string }): string {
  if (run.environment) return run.environment.replace(/^gymnasium:/, "");
  return run.kind === "outside" ? "outside" : "–";
}
