// The client of the admin port. Its types are generated from openapi.json: a path, a parameter or a
// body that the engine does not know is an error of the compiler.
import createClient from "openapi-fetch";

import type { components, paths } from "./generated.ts";

export type Refusal = components["schemas"]["Error"]["error"];

/** Raised for every answer other than success. */
export class Refused extends Error {
  readonly status: number;
  readonly refusal: Refusal;
  /** Seconds after which the same request may be taken; 0 if the answer names none. */
  readonly retryAfter: number;

  constructor(status: number, refusal: Refusal, retryAfter = 0) {
    super(refusal.message);
    this.status = status;
    this.refusal = refusal;
    this.retryAfter = retryAfter;
  }
}

/**
 * A client of one engine. In a page of the engine's own `origin` is left out and the session's
 * cookie counts; a program gives an origin, such as `http://127.0.0.1:15001`, and its API key.
 */
export function connect(origin = "", key = "") {
  const client = createClient<paths>({
    baseUrl: origin,
    headers: key ? { Authorization: `Bearer ${key}` } : { "X-Cordboard": "1" },
  });
  client.use({
    async onResponse({ response }) {
      if (response.ok || response.status === 304) return;
      const seconds = Number(response.headers.get("Retry-After"));
      throw new Refused(response.status, await refusalOf(response), seconds || 0);
    },
  });
  return client;
}

async function refusalOf(response: Response): Promise<Refusal> {
  const body: { error?: Refusal } | null = await response.json().catch(() => null);
  if (body?.error) return body.error;
  // A proxy between the page and the engine answers with words of its own.
  const request = response.headers.get("X-Request-Id") ?? "";
  return { code: "proxy", message: `status ${response.status}`, at: [], request };
}
