import { useQuery } from "@tanstack/react-query";
import { environmentNamesQuery } from "@/forms/api";

export const STEP_ENVIRONMENTS = "environments-of-steps";

/** The names of the registered environments of steps, as suggestions of a text field. */
export function EnvironmentNames() {
  const { data: names = [] } = useQuery(environmentNamesQuery("steps"));
  return (
    <datalist id={STEP_ENVIRONMENTS}>
      {names.map((name) => (
        <option key={name} value={name} />
      ))}
    </datalist>
  );
}
