import type { ComponentProps } from "react";

type Props = ComponentProps<"span"> & { tone: string; sign: string };

/** A short label with colour and symbol. */
export function Chip({ tone, sign, className = "", children, ...rest }: Props) {
  return (
    <span className={`chip tone-${tone} ${className}`.trimEnd()} {...rest}>
      <span className="chip-sign" aria-hidden="true">
        {sign}
      </span>
      {children}
    </span>
  );
}
