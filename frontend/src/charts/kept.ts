/** State of a chart that its page may control. */

import { useState } from "react";

export type Kept<T> = { value: T; change: (value: T) => void };

/** The page's state if given, else local state for the lifetime of the component. */
export function useKept<T>(kept: Kept<T> | undefined, first: T): Kept<T> {
  const [value, change] = useState(first);
  return kept ?? { value, change };
}
