/** Alerts: reading and writing them. */
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { CALM_MILLIS } from "../app/query";
import { allItems, api, ifMatch, written } from "./client";
import type { Alert } from "./model";

export function useAlerts(domain: string) {
  return useQuery({
    queryKey: ["alerts", domain],
    queryFn: () => allItems((page) => api.GET("/v1/alerts", { params: { query: { domain, ...page } } })),
    refetchInterval: CALM_MILLIS,
  });
}

export function useSaveAlert(domain: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ alert, before }: { alert: Alert; before?: Alert }) => written(saveAlert(domain, alert, before)),
    onSuccess: () => client.invalidateQueries({ queryKey: ["alerts", domain] }),
  });
}

export function useDeleteAlert(domain: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (alert: Alert) =>
      written(
        api.DELETE("/v1/alerts/{name}", {
          params: { path: { name: alert.name }, query: { domain }, header: ifMatch(alert) },
        }),
      ),
    onSuccess: () => client.invalidateQueries({ queryKey: ["alerts", domain] }),
  });
}

function saveAlert(domain: string, alert: Alert, before: Alert | undefined) {
  const query = { domain };
  if (before === undefined) return api.POST("/v1/alerts", { params: { query }, body: alert });
  const params = { path: { name: before.name }, query, header: ifMatch(before) };
  return api.PUT("/v1/alerts/{name}", { params, body: alert });
}
