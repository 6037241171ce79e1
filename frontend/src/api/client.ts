/** API client of the platform, this tab's cache of its responses, and the parts of queries and mutations. */

import {
  infiniteQueryOptions,
  QueryClient,
  type QueryKey,
  queryOptions,
  type UseQueryOptions,
  useMutation,
  useQueryClient,
} from "@tanstack/react-query";
import createClient from "openapi-fetch";
import type { paths } from "@/api/schema";

type FieldProblem = { field: string; message: string };

export class ApiProblem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly fields: FieldProblem[] = [],
  ) {
    super(message);
    this.name = "ApiProblem";
  }
}

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null;

/** Return the problem that a response body describes (problem details, or any other content). */
export function problemOf(status: number, body: unknown): ApiProblem {
  if (!isRecord(body)) return new ApiProblem(status, `http_${status}`, `The server responded with ${status}.`);
  const errors = Array.isArray(body.errors) ? body.errors.filter(isRecord) : [];
  const fields = errors.map((each) => ({
    field: String(each.field ?? ""),
    message: String(each.message ?? ""),
  }));
  const text = typeof body.detail === "string" && body.detail ? body.detail : body.title;
  const message = typeof text === "string" && text ? text : `The server responded with ${status}.`;
  const code = typeof body.code === "string" ? body.code : `http_${status}`;
  return new ApiProblem(status, code, message, fields);
}

export const api = createClient<paths>({ baseUrl: "", credentials: "same-origin" });
api.use({
  onRequest({ request }) {
    const token = /(?:^|; )(?:__Host-)?csrftoken=([^;]*)/.exec(document.cookie)?.[1] ?? "";
    if (request.method !== "GET") request.headers.set("X-CSRFToken", decodeURIComponent(token));
    return request;
  },
});

type Answer<T> = { data?: T; error?: unknown; response: Response };

let onSignedOut: (() => void) | null = null;

/** Call `listener` when a response shows that the session has ended. */
export function whenSignedOut(listener: () => void): void {
  onSignedOut = listener;
}

/** Report that the session has ended; the page then redirects to the login page. */
export function signedOut(): void {
  onSignedOut?.();
}

/** Return the body of a response, or throw the problem it describes. */
export async function body<T>(answer: Promise<Answer<T>>): Promise<T> {
  let got: Answer<T>;
  try {
    got = await answer;
  } catch {
    throw new ApiProblem(0, "unreachable", "The server cannot be reached.");
  }
  if (got.response.ok) return got.data as T;
  const problem = problemOf(got.response.status, got.error);
  if (problem.code === "not_authenticated") signedOut();
  throw problem;
}

/** The rows of a response. */
export const results = async <T>(answer: Promise<Answer<{ results: T }>>): Promise<T> => (await body(answer)).results;

type Options<T> = Partial<Pick<UseQueryOptions<T>, "staleTime" | "gcTime" | "retry" | "refetchInterval" | "enabled" | "placeholderData">>;

/** The query of one request. */
export const ask = <T>(queryKey: QueryKey, request: () => Promise<Answer<T>>, options?: Options<T>) =>
  queryOptions<T>({ queryKey, queryFn: () => body(request()), ...options });

/** The query of the rows of one request. */
export const askRows = <T>(queryKey: QueryKey, request: () => Promise<Answer<{ results: T }>>, options?: Options<T>) =>
  queryOptions<T>({ queryKey, queryFn: () => results(request()), ...options });

/** The path parameters of a request about a run. */
export const at = (run: string) => ({ params: { path: { run } } });

export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      // Refusals are final; only an unreachable server is retried.
      retry: (failures, error) => failures < 3 && !(error instanceof ApiProblem && error.status >= 400 && error.status < 500),
    },
  },
});

/** A mutation after which, also if it was refused, the queries under the keys are read again. */
export function useChange<Wanted, Changed>(key: QueryKey, mutationFn: (wanted: Wanted) => Promise<Changed>, ...further: QueryKey[]) {
  const queries = useQueryClient();
  const reread = () => Promise.all([key, ...further].map((queryKey) => queries.invalidateQueries({ queryKey })));
  return useMutation({ mutationFn, onSettled: reread });
}

/** A list that the server returns in pages; without a cursor, the first page. */
export function pagesOf<Page extends { next: string | null }>(queryKey: QueryKey, load: (cursor: string | undefined) => Promise<Page>) {
  return infiniteQueryOptions({
    queryKey,
    queryFn: ({ pageParam }) => load(pageParam || undefined),
    initialPageParam: "",
    getNextPageParam: (page) => page.next ?? undefined,
  });
}
