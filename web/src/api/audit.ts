/** The record of every change. */
import { useInfiniteQuery } from "@tanstack/react-query";
import { api, bodyOf } from "./client";

const PAGE_SIZE = 50;

export interface AuditFilter {
  kind?: string | undefined;
  name?: string | undefined;
}

export function useAudit(domain: string | undefined, { kind, name }: AuditFilter) {
  return useInfiniteQuery({
    queryKey: ["audit", domain, kind, name],
    initialPageParam: "",
    queryFn: ({ pageParam }) => {
      const filter = { ...(kind ? { kind } : {}), ...(name ? { name } : {}) };
      const query = {
        ...(domain ? { domain } : {}),
        page_size: PAGE_SIZE,
        ...filter,
        ...(pageParam === "" ? {} : { page_token: pageParam }),
      };
      return bodyOf(api.GET("/v1/audit", { params: { query } }));
    },
    getNextPageParam: (page) => (page.next_page_token === "" ? undefined : page.next_page_token),
  });
}
