import { type ErrorComponentProps, useRouter } from "@tanstack/react-router";
import { Children, type ComponentProps, type ReactNode } from "react";
import { ErrorBoundary, type FallbackProps } from "react-error-boundary";
import { ErrorState } from "@/components/ErrorState";

function FailedPanel({ error, resetErrorBoundary }: FallbackProps) {
  return (
    <section className="panel failed-panel" aria-label="Failed panel">
      <ErrorState title="Panel failed" error={error} onRetry={resetErrorBoundary} />
    </section>
  );
}

/** Panels of a page: an error replaces only the panel in which it occurs. */
export function Guarded({ children }: { children: ReactNode }) {
  return Children.map(children, (panel) => panel && <ErrorBoundary FallbackComponent={FailedPanel}>{panel}</ErrorBoundary>);
}

/** Panels in a grid of twelve columns; each child fails alone. */
export function Panels({ children, className = "", ...rest }: ComponentProps<"div">) {
  return (
    <div className={`charts ${className}`} {...rest}>
      <Guarded>{children}</Guarded>
    </div>
  );
}

/** A page that failed outside of its panels; navigation and header stay. */
export function FailedPage({ error, reset }: ErrorComponentProps) {
  const router = useRouter();
  const retry = () => {
    reset();
    void router.invalidate();
  };
  return <ErrorState title="Page failed" error={error} onRetry={retry} />;
}
