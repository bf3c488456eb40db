/** Rules: reading and writing them, and what lint says about them. */
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { CALM_MILLIS } from "../app/query";
import { warningsByRule } from "../rules/warnings";
import { allItems, api, bodyOf, ifMatch, written } from "./client";
import type { Rule } from "./model";

export function useRules(domain: string) {
  return useQuery({
    queryKey: ["rules", domain],
    queryFn: () => allItems((page) => api.GET("/v1/rules", { params: { query: { domain, ...page } } })),
    refetchInterval: 2 * CALM_MILLIS,
  });
}

export function useRule(domain: string, name: string) {
  return useQuery({
    queryKey: ["rules", domain, name],
    queryFn: () => bodyOf(api.GET("/v1/rules/{name}", { params: { path: { name }, query: { domain } } })),
    // The form is made once from it; a refresh under the editor's hands would only confuse.
    refetchOnWindowFocus: false,
    staleTime: 0,
    gcTime: 0,
  });
}

/** Creates `rule`, or replaces the one that was read (`before`) if nobody changed it meanwhile. */
export function useSaveRule(domain: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ rule, before }: { rule: Rule; before?: Rule }) => written(saveRule(domain, rule, before, false)),
    onSuccess: () => client.invalidateQueries({ queryKey: ["rules", domain] }),
  });
}

/** Asks the server what it would say to `rule`, without storing it. */
export function useCheckRule(domain: string) {
  return useMutation({
    mutationFn: ({ rule, before }: { rule: Rule; before?: Rule }) => written(saveRule(domain, rule, before, true)),
  });
}

export function useDeleteRule(domain: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (rule: Rule) =>
      written(
        api.DELETE("/v1/rules/{name}", {
          params: { path: { name: rule.name }, query: { domain }, header: ifMatch(rule) },
        }),
      ),
    onSuccess: () => client.invalidateQueries({ queryKey: ["rules", domain] }),
  });
}

/** Lint's warnings, by the name of the rule that they are about. They point into the exported document. */
export function useLint(domain: string) {
  return useQuery({
    queryKey: ["rules", domain, "lint"],
    queryFn: async () => {
      const params = { query: { domain } };
      const [lint, document] = await Promise.all([
        bodyOf(api.GET("/v1/lint", { params })),
        bodyOf(api.GET("/v1/export", { params })),
      ]);
      return warningsByRule(lint.warnings, document.rules ?? []);
    },
    staleTime: CALM_MILLIS,
  });
}

function saveRule(domain: string, rule: Rule, before: Rule | undefined, validateOnly: boolean) {
  const query = { domain, ...(validateOnly ? { validate_only: true } : {}) };
  if (before === undefined) return api.POST("/v1/rules", { params: { query }, body: rule });
  const params = { path: { name: before.name }, query, header: ifMatch(before) };
  return api.PUT("/v1/rules/{name}", { params, body: rule });
}
