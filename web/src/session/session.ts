/** Who is signed in. */
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, bodyOf } from "../api/client";
import type { Role, Session } from "../api/model";
import { ApiError } from "../api/problem";
import { SESSION_KEY } from "../app/query";

/** The session: undefined while unknown, null if nobody is signed in. */
export function useSession() {
  return useQuery({
    queryKey: SESSION_KEY,
    staleTime: Number.POSITIVE_INFINITY,
    queryFn: async (): Promise<Session | null> => {
      try {
        return await bodyOf(api.GET("/v1/session"));
      } catch (error) {
        if (error instanceof ApiError && error.status === 401) return null;
        throw error;
      }
    },
  });
}

/** Trades a one-time code or an API token for a session. */
export function useSignIn() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (secret: { code: string } | { token: string }) => bodyOf(api.POST("/v1/session", { body: secret })),
    onSuccess: (session: Session) => client.setQueryData(SESSION_KEY, session),
  });
}

export function useSignOut() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: () => bodyOf(api.DELETE("/v1/session")),
    onSettled: () => {
      client.setQueryData(SESSION_KEY, null);
      // The next one who signs in here must not see what this one saw.
      client.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== SESSION_KEY[0] });
    },
  });
}

const RANK: Record<Role, number> = { viewer: 0, operator: 1, admin: 2 };

/** Whether the one who is signed in has at least `role`. The server decides; this only spares buttons that would be refused. */
export function useMay(role: Role): boolean {
  const { data } = useSession();
  return data ? (RANK[data.role] ?? 0) >= RANK[role] : false;
}
