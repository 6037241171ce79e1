/** State that a page owns and its parts change. */

export type Controlled<T> = { value: T; change: (value: T) => void };
