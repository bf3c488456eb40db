/** The cache of what the server said, and how it is refreshed. */
import { MutationCache, QueryCache, QueryClient } from "@tanstack/react-query";
import { ApiError } from "../api/problem";

/** How often pages that watch the fleet ask again. */
export const LIVE_MILLIS = 2_000;
export const CALM_MILLIS = 5_000;

export const SESSION_KEY = ["session"] as const;

export function makeQueryClient(): QueryClient {
  const client = new QueryClient({
    queryCache: new QueryCache({ onError: (error) => forgetSession(error) }),
    mutationCache: new MutationCache({ onError: (error) => forgetSession(error) }),
    defaultOptions: {
      queries: {
        staleTime: 1_000,
        // A refusal stays a refusal; only a server that is away is worth another try.
        retry: (failures, error) =>
          failures < 2 && (!(error instanceof ApiError) || error.status === 0 || error.status >= 502),
        retryDelay: (failures) => 500 * 2 ** failures,
        refetchOnWindowFocus: true,
      },
    },
  });
  function forgetSession(error: Error) {
    if (error instanceof ApiError && error.status === 401) client.setQueryData(SESSION_KEY, null);
  }
  return client;
}
