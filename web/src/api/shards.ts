/** Shards of the ring: reading and writing them. A password goes in and never comes out. */
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { CALM_MILLIS } from "../app/query";
import { allItems, api, ifMatch, written } from "./client";
import type { Shard } from "./model";

export function useShards() {
  return useQuery({
    queryKey: ["shards"],
    queryFn: () => allItems((query) => api.GET("/v1/shards", { params: { query } })),
    refetchInterval: CALM_MILLIS,
  });
}

export function useSaveShard() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ shard, before }: { shard: Shard; before?: Shard }) => written(saveShard(shard, before)),
    onSuccess: () => client.invalidateQueries({ queryKey: ["shards"] }),
  });
}

export function useDeleteShard() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ name, meta }: Shard) =>
      written(api.DELETE("/v1/shards/{name}", { params: { path: { name }, header: ifMatch(meta ? { meta } : {}) } })),
    onSuccess: () => client.invalidateQueries({ queryKey: ["shards"] }),
  });
}

function saveShard(shard: Shard, before: Shard | undefined) {
  if (before === undefined) return api.POST("/v1/shards", { body: shard });
  return api.PUT("/v1/shards/{name}", {
    params: { path: { name: before.name }, header: ifMatch(before) },
    body: shard,
  });
}
