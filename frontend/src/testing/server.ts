/** The server of a component test: typed answers to requests, and the parts of live topics. */

import { expect, onTestFailed, onTestFinished, vi } from "vitest";
import type { paths } from "@/api/schema";
import type { PartName, PartOf, TopicName } from "@/live/frames";
import description from "../../../docs/reference/openapi.json?raw";

type Verb = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
type Content<T> = T extends { content: { "application/json": infer C } } ? C : null;
type Answers<T> = T extends { responses: infer R }
  ? { [S in keyof R & (200 | 201 | 202 | 204)]: Content<R[S]> }[keyof R & (200 | 201 | 202 | 204)]
  : never;
/** The body of a successful answer. */
export type AnswerTo<V extends Verb, P extends keyof paths> = Answers<paths[P][Lowercase<V>]>;
export type Asked = { verb: Verb; path: string; query: URLSearchParams; body: Record<string, unknown> };
type Problem = { status: number; code: string; detail: string; errors?: { field: string; message: string }[] };
type Rule = { verb: Verb; path: keyof paths; pattern: RegExp; answer: (asked: Asked) => unknown };

type Operation = { parameters?: { in: string; name: string }[] };
const operations: Record<string, Record<string, Operation>> = JSON.parse(description).paths;

/** The names of a query that an operation does not have: the server refuses them. */
function unknownNames({ verb, path }: Rule, query: URLSearchParams): string[] {
  const known = operations[path]?.[verb.toLowerCase()]?.parameters ?? [];
  return [...query.keys()].filter((name) => !known.some((one) => one.in === "query" && one.name === name));
}

/** A refusal, as the server words one. */
export class Refusal {
  constructor(readonly problem: Problem) {}
}

export class Server {
  /** All requests so far, oldest first. */
  readonly asked: Asked[] = [];
  private readonly rules: Rule[] = [];
  private readonly unanswered = new Set<string>();
  private readonly unknown = new Set<string>();
  private readonly parts: Record<string, Record<string, unknown>> = {};
  private readonly errors: Record<string, { code: string; detail: string }> = {};
  private sockets: Socket[] = [];
  private sequence = 0;
  private isGone = false;

  constructor() {
    vi.stubGlobal("fetch", (request: Request) => this.fetch(request));
    const open = (socket: Socket) => {
      this.sockets.push(socket);
      if (this.isGone) setTimeout(() => socket.onclose?.({ code: 1006 }));
      return !this.isGone;
    };
    const told = (socket: Socket, message: { type: string; topic?: string }) => this.told(socket, message);
    vi.stubGlobal(
      "WebSocket",
      class extends Socket {
        constructor() {
          super(told);
          if (!open(this)) this.close();
        }
      },
    );
    onTestFinished(() => expect([...this.unknown], "query parameters that the API does not have").toEqual([]));
    onTestFailed(() => console.log(`Requests without an answer: ${[...this.unanswered].join(", ") || "none"}`));
  }

  /** Answer requests with a body, or with what a function returns; later rules take precedence. */
  on<V extends Verb, P extends keyof paths>(
    verb: V,
    path: P,
    answer: AnswerTo<V, P> | Refusal | ((asked: Asked) => AnswerTo<V, P> | Refusal),
  ): this {
    const pattern = new RegExp(`^${path.replaceAll(/\{[^}]+\}/g, "([^/]+)")}$`);
    this.rules.unshift({ verb, path, pattern, answer: typeof answer === "function" ? (answer as Rule["answer"]) : () => answer });
    return this;
  }

  /** Set parts of a live topic; open pages receive them. */
  tell<T extends TopicName>(topic: T, parts: { [N in PartName<T>]?: PartOf<T, N> }): this {
    this.parts[topic] = { ...this.parts[topic], ...parts };
    const previous = this.sequence++;
    for (const socket of this.sockets)
      if (socket.topics.has(topic)) socket.deliver({ type: "delta", topic, previous, sequence: this.sequence, ...this.content(parts) });
    return this;
  }

  /** Refuse a live topic. */
  refuse(topic: TopicName, code: string, detail: string): this {
    this.errors[topic] = { code, detail };
    return this;
  }

  /** End the session, as far as the live connection shows it. */
  endSession(): void {
    for (const socket of this.sockets) socket.onclose?.({ code: 4401 });
  }

  /** Go away: sockets close, and neither sockets nor requests get an answer. */
  leave(): void {
    this.isGone = true;
    for (const socket of this.sockets) socket.onclose?.({ code: 1006 });
  }

  /** The bodies of all requests of one kind. */
  bodies(verb: Verb, path: string): Record<string, unknown>[] {
    return this.asked.filter((one) => one.verb === verb && one.path === path).map(({ body }) => body);
  }

  private content(parts: object) {
    return { at: new Date().toISOString(), parts, series: {} };
  }

  private told(socket: Socket, { type, topic = "" }: { type: string; topic?: string }): void {
    if (type === "unsubscribe") socket.topics.delete(topic);
    if (type !== "subscribe") return;
    socket.topics.add(topic);
    const error = this.errors[topic];
    const known = this.parts[topic];
    if (error) socket.deliver({ type: "error", topic, ...error });
    else if (known) socket.deliver({ type: "snapshot", topic, sequence: this.sequence, ...this.content(known) });
  }

  private async fetch(request: Request): Promise<Response> {
    if (this.isGone) throw new TypeError("Failed to fetch");
    const { pathname, searchParams } = new URL(request.url);
    const text = await request.text();
    const asked: Asked = {
      verb: request.method as Verb,
      path: decodeURI(pathname),
      query: searchParams,
      body: text ? JSON.parse(text) : {},
    };
    this.asked.push(asked);
    const rule = this.rules.find(({ verb, pattern }) => verb === asked.verb && pattern.test(asked.path));
    if (!rule) {
      this.unanswered.add(`${asked.verb} ${asked.path}`);
      return new Promise(() => {});
    }
    for (const name of unknownNames(rule, searchParams)) this.unknown.add(`${rule.verb} ${rule.path}?${name}`);
    const answer = rule.answer(asked);
    if (answer instanceof Refusal) {
      const { status, ...problem } = answer.problem;
      return Response.json({ type: "about:blank", title: problem.code, status, errors: [], ...problem }, { status });
    }
    return answer === null ? new Response(null, { status: 204 }) : Response.json(answer);
  }
}

/** The used subset of WebSocket. */
class Socket {
  readyState = 0;
  readonly topics = new Set<string>();
  onopen: (() => void) | null = null;
  onclose: ((event: { code: number }) => void) | null = null;
  onmessage: ((event: { data: string }) => void) | null = null;

  constructor(private readonly told: (socket: Socket, message: { type: string; topic?: string }) => void) {
    queueMicrotask(() => {
      if (this.readyState !== 0) return;
      this.readyState = 1;
      this.onopen?.();
    });
  }

  send(text: string): void {
    queueMicrotask(() => this.told(this, JSON.parse(text)));
  }

  deliver(frame: object): void {
    this.onmessage?.({ data: JSON.stringify(frame) });
  }

  close(): void {
    this.readyState = 3;
  }
}
