/** Revisions of a domain: what was published, and who runs it. */
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, bodyOf, written } from "./client";
import type { Revision } from "./model";

const PAGE_SIZE = 50;

export function useRevisions(domain: string) {
  return useInfiniteQuery({
    queryKey: ["revisions", domain],
    initialPageParam: "",
    queryFn: ({ pageParam }) => {
      const query = { domain, page_size: PAGE_SIZE, ...(pageParam === "" ? {} : { page_token: pageParam }) };
      return bodyOf(api.GET("/v1/revisions", { params: { query } }));
    },
    getNextPageParam: (page) => (page.next_page_token === "" ? undefined : page.next_page_token),
  });
}

/** One revision with the agents that run it; `follow`: asked again until no agent is missing. */
export function useRevision(domain: string, revision: number, follow: boolean) {
  return useQuery({
    queryKey: ["revisions", domain, revision],
    queryFn: () => bodyOf(api.GET("/v1/revisions/{revision}", { params: { path: { revision }, query: { domain } } })),
    refetchInterval: (query) => (follow && !settled(query.state.data) ? 500 : false),
    staleTime: 0,
  });
}

export function useRollback(domain: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (revision: number) =>
      written(api.POST("/v1/revisions/{revision}/rollback", { params: { path: { revision }, query: { domain } } })),
    onSuccess: () => client.invalidateQueries(),
  });
}

function settled(revision: Revision | undefined): boolean {
  return revision?.agents !== undefined && revision.agents?.pending.length === 0;
}
