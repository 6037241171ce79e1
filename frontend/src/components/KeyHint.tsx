import { Kbd } from "@mantine/core";

/** A keyboard shortcut; hidden on small screens. */
export function KeyHint({ children }: { children: string }) {
  return (
    <Kbd size="xs" className="wide-only">
      {children}
    </Kbd>
  );
}
