/** From the counts of a time series to the lines, totals and words of the traffic chart. */
import type { TimeSeries } from "../api/model";
import { rate } from "../format/number";
import type { Window } from "./range";

/** How a line looks: a colour and a dash pattern, so that lines differ without colour too. */
export interface Stroke {
  /** A CSS variable's name, or a colour. */
  colour: string;
  dash: number[];
  fill: boolean;
}

export interface Line {
  key: string;
  label: string;
  stroke: Stroke;
  /** Per second, one for each time; null where a step is not known yet. */
  rates: (number | null)[];
  total: number;
}

export interface Totals {
  allowed: number;
  denied: number;
  shadow: number;
  degraded: number;
  unavailable: number;
  requests: number;
  deniedShare: number;
}

type Bucket = "allowed" | "denied" | "shadow" | "degraded" | "unavailable";

const BUCKETS: Record<string, Bucket> = {
  allowed: "allowed",
  denied: "denied",
  shadow_denied: "shadow",
  degraded_allowed: "degraded",
  degraded_denied: "degraded",
  unavailable: "unavailable",
};

const OUTCOMES: { key: Bucket; label: string; stroke: Stroke }[] = [
  { key: "allowed", label: "Allowed", stroke: { colour: "--allowed", dash: [], fill: true } },
  { key: "denied", label: "Denied", stroke: { colour: "--denied", dash: [], fill: true } },
  { key: "shadow", label: "Shadow-denied", stroke: { colour: "--shadow", dash: [7, 4], fill: false } },
  { key: "degraded", label: "Degraded", stroke: { colour: "--degraded", dash: [2, 3], fill: false } },
  { key: "unavailable", label: "Unavailable", stroke: { colour: "--bad", dash: [10, 3, 2, 3], fill: false } },
];

const GROUP_STROKES: Stroke[] = [
  { colour: "--denied", dash: [], fill: false },
  { colour: "--allowed", dash: [8, 4], fill: false },
  { colour: "--shadow", dash: [2, 3], fill: false },
  { colour: "--degraded", dash: [10, 3, 2, 3], fill: false },
  { colour: "--good", dash: [14, 4], fill: false },
];
const OTHERS_STROKE: Stroke = { colour: "--ink-soft", dash: [4, 4], fill: false };

/** A denial is a refusal that a client met because of a limit, whoever counted it. */
const REFUSED = new Set(["denied", "degraded_denied"]);

/**
 * The sums over the whole range, in which chart, tiles and table agree. Every request is counted once, under the rule that decided it;
 * what shadow rules would have refused is counted besides.
 */
export function totalsOf({ series }: TimeSeries): Totals {
  const sums = { allowed: 0, denied: 0, shadow: 0, degraded: 0, unavailable: 0 };
  let refused = 0;
  for (const { key, requests } of series) {
    const bucket = BUCKETS[key.outcome];
    if (bucket) sums[bucket] += sum(requests);
    if (REFUSED.has(key.outcome)) refused += sum(requests);
  }
  const requests = sums.allowed + sums.denied + sums.degraded + sums.unavailable;
  return { ...sums, requests, deniedShare: requests === 0 ? 0 : refused / requests };
}

/** One line per outcome. Outcomes that never happened have no line, but allowed and denied always do. */
export function outcomeLines(report: TimeSeries, window: Window): Line[] {
  return OUTCOMES.flatMap(({ key, label, stroke }) => {
    const own = report.series.filter((series) => BUCKETS[series.key.outcome] === key);
    const counts = added(report, own);
    const total = sum(counts);
    if (total === 0 && key !== "allowed" && key !== "denied") return [];
    return [{ key, label, stroke, total, rates: ratesOf(counts, report, window) }];
  });
}

/** Denials per rule or tier: a line for each of the largest, one for all the others. */
export function groupLines(report: TimeSeries, window: Window, by: "rule" | "tier"): Line[] {
  const refused = report.series.filter(({ key }) => REFUSED.has(key.outcome));
  // The server sums the lightest series into one per outcome, which has no name.
  const nameOf = ({ key }: TimeSeries["series"][number]) => (key.other ? undefined : (key[by] ?? ""));
  const totals = new Map<string, number>();
  for (const series of refused) {
    const name = nameOf(series);
    if (name !== undefined) totals.set(name, (totals.get(name) ?? 0) + sum(series.requests));
  }
  const ranked = [...totals].filter(([, total]) => total > 0).sort(([, a], [, b]) => b - a);
  const own = ranked.slice(0, GROUP_STROKES.length).map(([name]) => name);
  const line = (key: string, label: string, stroke: Stroke, isIn: (name: string | undefined) => boolean): Line => {
    const counts = added(
      report,
      refused.filter((series) => isIn(nameOf(series))),
    );
    return { key, label, stroke, total: sum(counts), rates: ratesOf(counts, report, window) };
  };
  const lines = GROUP_STROKES.slice(0, own.length).map((stroke, i) => {
    const name = own[i] ?? "";
    return line(`=${name}`, name === "" ? `no ${by}` : name, stroke, (other) => other === name);
  });
  const others = line("others", "All others", OTHERS_STROKE, (name) => name === undefined || !own.includes(name));
  return others.total > 0 ? [...lines, others] : lines;
}

/** The chart in a sentence, for those who do not see it. */
export function chartWords(lines: readonly Line[]): string {
  if (lines.length === 0) return "No traffic in this range.";
  return lines
    .map(({ label, rates }) => {
      const known = rates.filter((value) => value !== null);
      const peak = known.length === 0 ? 0 : Math.max(...known);
      return `${label}: now ${rate(known.at(-1) ?? 0)} per second, at most ${rate(peak)}.`;
    })
    .join(" ");
}

function added({ times }: TimeSeries, series: readonly TimeSeries["series"][number][]): number[] {
  const counts = times.map(() => 0);
  for (const { requests } of series) {
    for (let i = 0; i < counts.length; i++) counts[i] = (counts[i] ?? 0) + (requests[i] ?? 0);
  }
  return counts;
}

/** A step that is not over, or not all here yet, would look like a fall in traffic, so it has no rate. */
function ratesOf(counts: number[], { times, step_seconds }: TimeSeries, { known }: Window): (number | null)[] {
  return counts.map((n, i) => ((times[i] ?? 0) + step_seconds <= known ? n / step_seconds : null));
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((a, b) => a + b, 0);
}
