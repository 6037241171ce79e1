/** API client of the platform, authenticated by the browser session. */

import createClient from "openapi-fetch";
import { ApiProblem, problemOf } from "@/api/problems";
import type { paths } from "@/api/schema";

export const api = createClient<paths>({ baseUrl: "", credentials: "same-origin" });
api.use({
  onRequest({ request }) {
    const token = /(?:^|; )csrftoken=([^;]*)/.exec(document.cookie)?.[1] ?? "";
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

/** The path parameters of a request about a run. */
export const at = (run: string) => ({ params: { path: { run } } });
