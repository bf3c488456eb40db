/** Agents: who is connected, what each runs, and how its shards do. */
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { LIVE_MILLIS } from "../app/query";
import { allItems, api, bodyOf } from "./client";

export function useAgents() {
  return useQuery({
    queryKey: ["agents"],
    queryFn: () => allItems((query) => api.GET("/v1/agents", { params: { query } })),
    refetchInterval: LIVE_MILLIS,
  });
}

export function useForgetAgent() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (name: string) => bodyOf(api.DELETE("/v1/agents/{name}", { params: { path: { name } } })),
    onSuccess: () => client.invalidateQueries({ queryKey: ["agents"] }),
  });
}
