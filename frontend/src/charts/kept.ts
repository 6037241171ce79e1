/** Keep a choice of a chart, here or wherever its page keeps it. */

import { useState } from "react";

export type Kept<T> = { value: T; change: (value: T) => void };

/** What the page keeps, or else this chart by itself, for as long as it is seen. */
export function useKept<T>(kept: Kept<T> | undefined, first: T): Kept<T> {
  const [value, change] = useState(first);
  return kept ?? { value, change };
}
