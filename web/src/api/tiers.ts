/** Tiers: reading and writing them. */
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type OwnLimit, rulesWith } from "../tiers/own-limits";
import { allItems, api, bodyOf, ifMatch, type Written, written } from "./client";
import type { Tier } from "./model";
import { ApiError } from "./problem";

export function useTiers(domain: string) {
  return useQuery({
    queryKey: ["tiers", domain],
    queryFn: () => allItems((page) => api.GET("/v1/tiers", { params: { query: { domain, ...page } } })),
  });
}

interface Save {
  tier: Tier;
  before?: Tier;
  /** Limits of a new tier in rules that name each of their tiers. */
  own: readonly OwnLimit[];
}

/** Creates `tier`, or replaces the one that was read (`before`) if nobody changed it meanwhile. */
export function useSaveTier(domain: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ tier, before, own }: Save): Promise<Written<unknown>> =>
      before === undefined && own.length > 0
        ? createWithLimits(domain, tier, own)
        : written(saveTier(domain, tier, before)),
    onSuccess: () =>
      Promise.all(["tiers", "rules"].map((kind) => client.invalidateQueries({ queryKey: [kind, domain] }))),
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

/** Such rules are not valid without a limit for the tier, nor with one for a tier that is not there: both go in one document, which must be whole. */
async function createWithLimits(domain: string, tier: Tier, own: readonly OwnLimit[]) {
  const document = await bodyOf(api.GET("/v1/export", { params: { query: { domain } } }));
  // Applying a document replaces a tier that is there already.
  if (document.tiers?.some(({ name }) => name === tier.name)) throw new ApiError(409, "This tier exists already", "");
  const others = (document.tiers ?? []).map((other) => (tier.default ? { ...other, default: false } : other));
  const body = { ...document, tiers: [...others, tier], rules: rulesWith(document.rules ?? [], tier.name, own) };
  return written(api.POST("/v1/apply", { body }));
}
