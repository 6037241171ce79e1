import { Children, type ComponentProps, type ReactNode } from "react";
import { Boundary } from "@/components/Boundary";

const panel = (error: ReactNode) => (
  <section className="panel failed-panel" aria-label="Failed panel">
    {error}
  </section>
);

/** Panels of a page: an error replaces only the panel in which it occurs. */
export function Guarded({ children }: { children: ReactNode }) {
  return Children.map(
    children,
    (each) =>
      each && (
        <Boundary part="Panel" frame={panel}>
          {each}
        </Boundary>
      ),
  );
}

/** Panels in a grid of twelve columns; each child fails alone. */
export function Panels({ children, className = "", ...rest }: ComponentProps<"div">) {
  return (
    <div className={`charts ${className}`} {...rest}>
      <Guarded>{children}</Guarded>
    </div>
  );
}
