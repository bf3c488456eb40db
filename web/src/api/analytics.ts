/** What happened to requests: series, totals and the subjects that were refused most. */
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { CALM_MILLIS, LIVE_MILLIS } from "../app/query";
import { iso, type Range, type Window, windowOf } from "../overview/range";
import { api, bodyOf } from "./client";
import type { Revision, Summary, TimeSeries, TopSubject } from "./model";

export type Grouping = "outcome" | "rule" | "tier";

export interface Filter {
  rule?: string | undefined;
  tier?: string | undefined;
}

/** Everything that the overview shows of one range, asked for the same ends, so that chart, totals and table agree. */
export interface TrafficReport {
  window: Window;
  series: TimeSeries;
  summary: Summary;
  subjects: TopSubject[];
  /** Whether the subjects' counts are estimated. */
  sampled: boolean;
  revisions: Revision[];
}

const TOP_SUBJECTS = 50;

export function useTraffic(domain: string, range: Range, grouping: Grouping, filter: Filter, live: boolean) {
  return useQuery({
    queryKey: ["traffic", domain, range, grouping, filter],
    queryFn: () => trafficOf(domain, windowOf(range, Date.now()), grouping, filter),
    // While a new range is on its way the old one stays, marked; nothing flickers.
    placeholderData: keepPreviousData,
    refetchInterval: live ? LIVE_MILLIS : false,
    refetchOnWindowFocus: live,
  });
}

async function trafficOf(domain: string, window: Window, grouping: Grouping, filter: Filter): Promise<TrafficReport> {
  const ends = { domain, from: iso(window.from), to: iso(window.to) };
  const rule = given("rule", filter.rule);
  const group = { step: `${window.step}s`, group_by: grouping, ...rule, ...given("tier", filter.tier) };
  const [series, summary, top, revisions] = await Promise.all([
    bodyOf(api.GET("/v1/analytics/timeseries", { params: { query: { ...ends, ...group } } })),
    bodyOf(api.GET("/v1/analytics/summary", { params: { query: { ...ends, ...rule } } })),
    bodyOf(api.GET("/v1/analytics/top-subjects", { params: { query: { ...ends, ...rule, limit: TOP_SUBJECTS } } })),
    bodyOf(api.GET("/v1/revisions", { params: { query: { domain, page_size: 100 } } })),
  ]);
  const subjects = top.items.filter(({ tier }) => filter.tier === undefined || tier === filter.tier);
  const inside = revisions.items.filter(({ created_at }) => {
    const second = Date.parse(created_at) / 1_000;
    return second >= window.from && second <= window.to;
  });
  return { window, series, summary, subjects, sampled: top.sampled, revisions: inside };
}

/** Requests and denials of the last 24 hours by rule. */
export function useRuleTraffic(domain: string) {
  return useQuery({
    queryKey: ["rule-traffic", domain],
    queryFn: async () => {
      const { from, to } = windowOf({ preset: "24h" }, Date.now());
      const query = { domain, from: iso(from), to: iso(to), step: "1h", group_by: "rule" as const };
      return byRule(await bodyOf(api.GET("/v1/analytics/timeseries", { params: { query } })));
    },
    refetchInterval: 6 * CALM_MILLIS,
    placeholderData: keepPreviousData,
  });
}

function byRule({ series }: TimeSeries): Map<string, { hits: number; denied: number }> {
  const rules = new Map<string, { hits: number; denied: number }>();
  for (const { key, requests } of series) {
    if (!key.rule) continue;
    const total = rules.get(key.rule) ?? { hits: 0, denied: 0 };
    const sum = requests.reduce((a, b) => a + b, 0);
    total.hits += sum;
    if (key.outcome === "denied" || key.outcome === "degraded_denied") total.denied += sum;
    rules.set(key.rule, total);
  }
  return rules;
}

function given(name: string, value: string | undefined): Record<string, string> {
  return value === undefined ? {} : { [name]: value };
}

/** The server looks for subjects that contain a text; those of others are left out here. */
const ASKED_DENIALS = 200;
const SHOWN_DENIALS = 15;

/** The latest refusals of one subject that were kept whole. */
export function useDenials(domain: string, subject: string, { from, to }: Window) {
  return useQuery({
    queryKey: ["denials", domain, subject, from, to],
    queryFn: async () => {
      const query = { domain, subject, from: iso(from), to: iso(to), page_size: ASKED_DENIALS };
      const { items } = await bodyOf(api.GET("/v1/denials", { params: { query } }));
      return items.filter((denial) => denial.subject === subject).slice(0, SHOWN_DENIALS);
    },
    placeholderData: keepPreviousData,
  });
}
