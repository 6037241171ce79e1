import { Fragment, type ReactNode } from "react";
import css from "./facts.module.css";

/** A term and its description. */
export type Fact = readonly [term: string, description: ReactNode];

/** Terms with their descriptions; false, null or an empty text omits one. */
export function Facts({ facts }: { facts: readonly (Fact | false | null | undefined | "")[] }) {
  return (
    <dl className={css.facts}>
      {facts.map(
        (fact) =>
          fact && (
            <Fragment key={fact[0]}>
              <dt>{fact[0]}</dt>
              <dd>{fact[1]}</dd>
            </Fragment>
          ),
      )}
    </dl>
  );
}
