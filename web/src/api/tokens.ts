/** Tokens of people, programs and agents. A secret is shown once, in the answer to its creation. */
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { allItems, api, bodyOf } from "./client";
import type { NewToken } from "./model";

export function useTokens() {
  return useQuery({
    queryKey: ["tokens"],
    queryFn: () => allItems((query) => api.GET("/v1/tokens", { params: { query } })),
  });
}

export function useCreateToken() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (token: NewToken) => bodyOf(api.POST("/v1/tokens", { body: token })),
    onSuccess: () => client.invalidateQueries({ queryKey: ["tokens"] }),
  });
}

export function useRevokeToken() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (id: string) => bodyOf(api.DELETE("/v1/tokens/{id}", { params: { path: { id } } })),
    onSuccess: () => client.invalidateQueries({ queryKey: ["tokens"] }),
  });
}

/** A link that signs in whoever opens it first. */
export function useSignInLink() {
  return useMutation({ mutationFn: () => bodyOf(api.POST("/v1/sign-in-links")) });
}
