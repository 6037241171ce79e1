/** Error responses of the API. */

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
