import { useQuery } from "@tanstack/react-query";
import { environmentNamesQuery } from "@/pages/launch/api";

export const STEP_ENVIRONMENTS = "environments-of-steps";
export const TOKEN_ENVIRONMENTS = "environments-of-tokens";

/** The names of the registered environments, as suggestions of text fields. */
export function EnvironmentNames({ isLanguage }: { isLanguage: boolean }) {
  const { data: names = [] } = useQuery(environmentNamesQuery(isLanguage ? "tokens" : "steps"));
  return (
    <datalist id={isLanguage ? TOKEN_ENVIRONMENTS : STEP_ENVIRONMENTS}>
      {names.map((name) => (
        <option key={name} value={name} />
      ))}
    </datalist>
  );
}
