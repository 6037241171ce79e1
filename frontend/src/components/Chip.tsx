import type { ComponentProps } from "react";

type Props = ComponentProps<"span"> & { tone: string; sign: string };

/** A short label with colour and symbol. */
export function Chip({ tone, sign, children, ...rest }: Props) {
  return (
    <span className={`chip tone-${tone}`} {...rest}>
      <span className="chip-sign" aria-hidden="true">
        {sign}
      </span>
      {children}
    </span>
  );
}
