/** Tiers: reading and writing them. */
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { allItems, api, ifMatch, written } from "./client";
import type { Tier } from "./model";

export function useTiers(domain: string) {
  return useQuery({
    queryKey: ["tiers", domain],
    queryFn: () => allItems((page) => api.GET("/v1/tiers", { params: { query: { domain, ...page } } })),
  });
}

/** Creates `tier`, or replaces the one that was read (`before`) if nobody changed it meanwhile. */
export function useSaveTier(domain: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ tier, before }: { tier: Tier; before?: Tier }) => written(saveTier(domain, tier, before)),
    onSuccess: () => client.invalidateQueries({ queryKey: ["tiers", domain] }),
  });
}

export function useDeleteTier(domain: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (tier: Tier) =>
      written(
        api.DELETE("/v1/tiers/{name}", {
          params: { path: { name: tier.name }, query: { domain }, header: ifMatch(tier) },
        }),
      ),
    onSuccess: () => client.invalidateQueries({ queryKey: ["tiers", domain] }),
  });
}

function saveTier(domain: string, tier: Tier, before: Tier | undefined) {
  const query = { domain };
  if (before === undefined) return api.POST("/v1/tiers", { params: { query }, body: tier });
  const params = { path: { name: before.name }, query, header: ifMatch(before) };
  return api.PUT("/v1/tiers/{name}", { params, body: tier });
}
