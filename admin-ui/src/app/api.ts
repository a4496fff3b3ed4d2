// How pages ask the engine: `useGet` to show, `useSend` to change. Both are typed by openapi.json.
import {
  keepPreviousData,
  QueryClient,
  type UseMutationResult,
  type UseQueryResult,
  useMutation,
  useQuery,
  useQueryClient,
} from "@tanstack/react-query";
import { useRef } from "react";

import { connect, Refused } from "../api/client.ts";
import type { components, paths } from "../api/generated.ts";
import { toast } from "../parts/toast.tsx";
import { words } from "../words/shell.ts";
import { useElevation } from "./elevation.tsx";

export { Refused };

/** A schema of the API by its name, such as `Schema<"LiveRow">`. */
export type Schema<Name extends keyof components["schemas"]> = components["schemas"][Name];

export const api = connect();

type Method = "get" | "post" | "put" | "delete";
type Operation<P extends keyof paths, M extends Method> = NonNullable<paths[P][M]>;
type JsonOf<O> = O extends { responses: { 200: { content: { "application/json": infer A } } } }
  ? A
  : never;
type PathsOf<M extends Method> = {
  [P in keyof paths]: [JsonOf<Operation<P, M>>] extends [never] ? never : P;
}[keyof paths];
type Given<O, Key extends string> = O extends { parameters: infer X }
  ? Pick<X, Extract<keyof X, Key>>
  : unknown;
type BodyOf<O> = O extends { requestBody: { content: { "application/json": infer B } } }
  ? { body: B }
  : O extends { requestBody?: { content: { "application/json": infer B } } }
    ? { body?: B }
    : { body?: never };

export type GetPath = PathsOf<"get">;
export type Answered<P extends GetPath> = JsonOf<Operation<P, "get">>;
export type GetParams<P extends GetPath> = Given<Operation<P, "get">, "path" | "query">;
export type Variables<M extends Method, P extends PathsOf<M>> = Given<
  Operation<P, M>,
  "path" | "query"
> &
  BodyOf<Operation<P, M>> & { headers?: Record<string, string> };

export interface GetOptions {
  /** False: do not ask yet. */
  enabled?: boolean;
  /** Milliseconds between two looks; left out: only when the page is shown again. */
  refetchInterval?: number | false;
  /** Milliseconds in which an answer counts as fresh. */
  staleTime?: number;
  /** Show the answer to the parameters before, until the new one is there. */
  keepPrevious?: boolean;
}

/** The key of a path's answers in the cache, for `invalidateQueries`. */
export const keyOf = (path: GetPath, params?: unknown) =>
  params === undefined ? [path] : [path, params];

// openapi-fetch types each path by itself; here the path is a type parameter, which it cannot
// follow. The types above say the same, so the casts stay in these two functions.
type AnyCall = (path: string, init: object) => Promise<{ data?: unknown }>;

async function send(method: Method, path: string, init: object): Promise<unknown> {
  const call = api[method.toUpperCase() as "GET" | "POST" | "PUT" | "DELETE"] as AnyCall;
  return (await call(path, init)).data;
}

/** Asks once outside of a component, for the palette or a loader. Throws `Refused`. */
export async function get<P extends GetPath>(
  path: P,
  params?: GetParams<P>,
  signal?: AbortSignal,
): Promise<Answered<P>> {
  return (await send("get", path, { params: params ?? {}, signal })) as Answered<P>;
}

/** The answer of the engine to a GET, cached by path and parameters. */
export function useGet<P extends GetPath>(
  path: P,
  ...[params, options]: object extends GetParams<P>
    ? [params?: GetParams<P>, options?: GetOptions]
    : [params: GetParams<P>, options?: GetOptions]
): UseQueryResult<Answered<P>, Error> {
  const { keepPrevious, ...rest } = options ?? {};
  return useQuery<Answered<P>, Error>({
    queryKey: keyOf(path, params ?? {}),
    queryFn: ({ signal }) => get(path, params, signal),
    ...rest,
    ...(keepPrevious ? { placeholderData: keepPreviousData } : {}),
  });
}

export interface SendOptions<A> {
  /** Paths whose answers are out of date afterwards. */
  stale?: readonly GetPath[];
  onDone?: (answer: A) => void;
  /** True: the page shows refusals itself; otherwise they are a toast. */
  quiet?: boolean;
}

/**
 * A change. `mutate({path, query, body, headers})` sends it. If the engine wants the password again
 * (`not_elevated`), the dialog opens and the request is repeated.
 */
export function useSend<M extends Exclude<Method, "get">, P extends PathsOf<M>>(
  method: M,
  path: P,
  options: SendOptions<JsonOf<Operation<P, M>>> = {},
): UseMutationResult<JsonOf<Operation<P, M>>, Error, Variables<M, P>> {
  const queries = useQueryClient();
  const { withProof } = useElevation();
  return useMutation({
    mutationFn: async (given: Variables<M, P>) => {
      const { path: inPath, query, body, headers } = given as Record<string, object | undefined>;
      const init = { params: { path: inPath, query }, ...(body && { body }), headers };
      const answer = await withProof(() => send(method, path, init));
      return answer as JsonOf<Operation<P, M>>;
    },
    onSuccess: async (answer) => {
      options.onDone?.(answer);
      await Promise.all(
        (options.stale ?? []).map((each) => queries.invalidateQueries({ queryKey: keyOf(each) })),
      );
    },
    onError: (error) => {
      if (!options.quiet && !isSignedOut(error)) toast.bad(sentence(error));
    },
  });
}

/**
 * A request that is sent again, also by a person whom no answer reached, must not be carried out
 * twice: its key stays until an answer comes or the content is another.
 */
export function useOnce() {
  const last = useRef({ content: "", key: "" });
  const headers = (...content: unknown[]) => {
    const text = JSON.stringify(content);
    if (last.current.content !== text) {
      const key = `${Date.now()}-${Math.random().toString(36).slice(2)}`;
      last.current = { content: text, key };
    }
    return { "Idempotency-Key": last.current.key };
  };
  const done = () => {
    last.current = { content: "", key: "" };
  };
  // The engine gives a refusal again to the same key, so the next try needs another one.
  const onError = (error: Error) => {
    if (error instanceof Refused && error.status < 500) done();
  };
  return { headers, done, kept: { onError } };
}

const SESSION = "/api/v1/session";

/** True if the request was refused because the session is over; the sign-in is shown for it. */
export function isSignedOut(error: unknown): boolean {
  return error instanceof Refused && error.refusal.code === "signed_out";
}

/** What went wrong, in the engine's words if it answered. */
export function sentence(error: Error): string {
  if (error instanceof Refused) return error.message;
  if (error instanceof TypeError) return words.unreachable; // of `fetch`: no answer came
  return error.message;
}

/** The cache of the answers. A request that finds the session over brings up the sign-in. */
export function makeQueries(): QueryClient {
  const queries = new QueryClient({
    defaultOptions: {
      // The browser's word on being offline says nothing about the engine, which may be on this
      // machine; and a command that waits for the network would be sent at a time nobody expects.
      mutations: { networkMode: "always" },
      queries: {
        networkMode: "always",
        refetchOnReconnect: true,
        staleTime: 5_000,
        retry: (failures, error) =>
          failures < 2 && (!(error instanceof Refused) || error.status === 503),
      },
    },
  });
  api.use({
    onResponse: ({ response }) => {
      if (response.status === 401) void queries.invalidateQueries({ queryKey: keyOf(SESSION) });
    },
  });
  return queries;
}
