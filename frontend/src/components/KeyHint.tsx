import { Kbd } from "@mantine/core";

/** The key that does the same; not said where there is hardly room, nor likely a keyboard. */
export function KeyHint({ children }: { children: string }) {
  return (
    <Kbd size="xs" className="wide-only">
      {children}
    </Kbd>
  );
}
