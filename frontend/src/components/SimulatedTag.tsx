import { SIMULATED_MEANING } from "@/components/simulated";

/** The mark of a simulated run beside its name. */
export function SimulatedTag({ of }: { of: { is_simulated: boolean } | undefined }) {
  if (!of?.is_simulated) return null;
  return (
    <span className="tag" title={SIMULATED_MEANING} data-simulated>
      simulated
    </span>
  );
}
