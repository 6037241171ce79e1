import { Box } from "@mantine/core";
import { Fragment, type ReactNode } from "react";

/** A term and its description. */
export type Fact = readonly [term: string, description: ReactNode];

const TWO_COLUMNS = { gridTemplateColumns: "fit-content(45%) minmax(0, 1fr)", gap: "0.35rem 1.1rem" };

/** Terms with their descriptions; false, null or an empty text omits one. */
export function Facts({ facts }: { facts: readonly (Fact | false | null | undefined | "")[] }) {
  return (
    <Box component="dl" display="grid" mt="xs" mb="sm" fz="sm" style={TWO_COLUMNS}>
      {facts.map(
        (fact) =>
          fact && (
            <Fragment key={fact[0]}>
              <dt className="faint anywhere">{fact[0]}</dt>
              <Box component="dd" m={0} className="anywhere">
                {fact[1]}
              </Box>
            </Fragment>
          ),
      )}
    </Box>
  );
}
