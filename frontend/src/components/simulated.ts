/** Marks of simulated runs. Pure. */

export const SIMULATED_MEANING = "Simulated: its data is made by manage.py seed or manage.py simulate.";

type Marked = { status: string; is_simulated: boolean };

/** A run's state as text, with the mark of simulated runs. */
export function stateText({ status, is_simulated }: Marked): string {
  return is_simulated ? `${status} · simulated` : status;
}

/** Whether a simulated run serves its data to trainers; empty for other runs. */
export function servedText({ is_simulated, serves_simulated }: { is_simulated: boolean; serves_simulated: boolean }): string {
  if (!is_simulated) return "";
  return serves_simulated ? "simulated data is served to trainers" : "simulated data is not served to trainers";
}

/** The mark of an environment by its runs: simulated if all of them are; empty if none is. */
export function simulatedRunsText({ runs, simulated_runs }: { runs: number; simulated_runs: number }): string {
  if (simulated_runs === 0) return "";
  return simulated_runs === runs ? "simulated" : `${simulated_runs} of ${runs} runs simulated`;
}
