/** The domain that pages are about: the address says which, `default` if it says nothing. */
import { useQuery } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";
import { allItems, api } from "../api/client";
import { useSession } from "../session/session";
import { CALM_MILLIS } from "./query";

export const DEFAULT_DOMAIN = "default";

export function useDomain(): string {
  const search = useSearch({ strict: false });
  const own = useSession().data?.domains;
  if (search.domain !== undefined) return search.domain;
  // Who may enter only some domains starts in one of them.
  return own?.[0] !== undefined && !own.includes(DEFAULT_DOMAIN) ? own[0] : DEFAULT_DOMAIN;
}

export function useDomains() {
  return useQuery({
    queryKey: ["domains"],
    queryFn: () => allItems((query) => api.GET("/v1/domains", { params: { query } })),
    staleTime: 12 * CALM_MILLIS,
  });
}
