import { type QueryClient, QueryClientContext, useQueryClient } from "@tanstack/react-query";
import { type ErrorComponentProps, useRouter } from "@tanstack/react-router";
import { type ReactNode, use } from "react";
import { ErrorBoundary } from "react-error-boundary";
import { ErrorState } from "@/components/ErrorState";

type Props = {
  /** What fails as one: the title of its error. */
  part: "Panel" | "Table" | "Dialog" | "Row" | "Message" | "View";
  /** The data that the part shows; other data renders it again. */
  data?: unknown;
  /** Around the error, where the markup demands it. */
  frame?: (error: ReactNode) => ReactNode;
  children: ReactNode;
};

/** Drop the data of parts that failed, and request that of the others again. */
async function renew(queries: QueryClient | undefined): Promise<void> {
  queries?.removeQueries({ type: "inactive" });
  await queries?.refetchQueries({ type: "active" });
}

/** A part of a page: an exception replaces this part and nothing else, until *Retry*, another address or other data. */
export function Boundary({ part, data, frame = (error) => error, children }: Props) {
  // Parts without data, such as a table of given rows, need no client.
  const queries = use(QueryClientContext);
  return (
    <ErrorBoundary
      resetKeys={[location.href, data]}
      fallbackRender={({ error, resetErrorBoundary }) =>
        frame(<ErrorState title={`${part} failed`} error={error} isCopyable onRetry={() => renew(queries).finally(resetErrorBoundary)} />)
      }
    >
      {children}
    </ErrorBoundary>
  );
}

/** A page that failed outside of its parts; navigation and header stay. */
export function FailedPage({ error, reset }: ErrorComponentProps) {
  const queries = useQueryClient();
  const router = useRouter();
  const retry = async () => {
    await renew(queries);
    reset();
    await router.invalidate();
  };
  return <ErrorState title="Page failed" error={error} isCopyable onRetry={retry} />;
}
