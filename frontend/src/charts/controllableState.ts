/** State of a chart that its page may control. */

import { useState } from "react";

export type Controlled<T> = { value: T; change: (value: T) => void };

/** The page's state if given, else local state for the lifetime of the component. */
export function useControllableState<T>(controlled: Controlled<T> | undefined, initial: T): Controlled<T> {
  const [value, change] = useState(initial);
  return controlled ?? { value, change };
}
