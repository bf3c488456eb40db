/** The time range of a page, as the address bar holds it: `range=1h`, or `from` and `to` as RFC 3339. */

export const PRESETS = ["15m", "1h", "6h", "24h", "7d"] as const;
export type Preset = (typeof PRESETS)[number];

export const PRESET_WORDS: Record<Preset, string> = {
  "15m": "15 min",
  "1h": "1 hour",
  "6h": "6 hours",
  "24h": "24 hours",
  "7d": "7 days",
};

const SECONDS: Record<Preset, number> = { "15m": 900, "1h": 3_600, "6h": 21_600, "24h": 86_400, "7d": 604_800 };
const STEPS = [1, 10, 60, 300, 600, 3_600, 21_600, 86_400];
const MAX_POINTS = 200;
/** How long agents, ingest and we ourselves may take with the counts of a second. */
const ARRIVAL_SECONDS = 3;
const MAX_SECONDS = 366 * 86_400;

/** A range that moves with the clock, or one that stands still. */
export type Range = { preset: Preset } | { from: number; to: number };

/** A range with its ends, in Unix seconds, and the width of a step. */
export interface Window {
  from: number;
  to: number;
  step: number;
  /** Until when all counts have arrived; what is later may still grow. */
  known: number;
}

export interface RangeSearch {
  range?: string | undefined;
  from?: string | undefined;
  to?: string | undefined;
}

/** The range that the address asks for. What cannot be shown is said in `problem`, and 15 minutes are shown instead. */
export function readRange(search: RangeSearch): { range: Range; problem?: string } {
  const fallback: Range = { preset: "15m" };
  if (search.from === undefined && search.to === undefined) {
    if (search.range === undefined) return { range: fallback };
    if (isPreset(search.range)) return { range: { preset: search.range } };
    return {
      range: fallback,
      problem: `“${search.range}” is not a time range; the choices are ${PRESETS.join(", ")}.`,
    };
  }
  const from = seconds(search.from);
  const to = seconds(search.to);
  if (from === undefined || to === undefined) {
    return { range: fallback, problem: "A custom range needs both a start and an end, as dates with a time." };
  }
  const problem = rangeProblem(from, to);
  return problem === undefined ? { range: { from, to } } : { range: fallback, problem };
}

/** Why `from` to `to` cannot be shown, if so. */
export function rangeProblem(from: number, to: number): string | undefined {
  if (to <= from) return "The end of the range must be after its start.";
  if (to - from > MAX_SECONDS) return "A range can be at most 366 days long.";
  return undefined;
}

/** What the address must hold to ask for `range`. */
export function writeRange(range: Range): RangeSearch {
  if ("preset" in range) return { range: range.preset, from: undefined, to: undefined };
  return { range: undefined, from: iso(range.from), to: iso(range.to) };
}

/** The ends of `range` at this moment. The start lies on a step, so that the first step is whole. */
export function windowOf(range: Range, nowMillis: number): Window {
  const to = "preset" in range ? Math.floor(nowMillis / 1_000) : range.to;
  const length = "preset" in range ? SECONDS[range.preset] : range.to - range.from;
  const step = STEPS.find((s) => s >= 10 && length / s <= MAX_POINTS) ?? 86_400;
  const known = Math.min(to, Math.floor(nowMillis / 1_000) - ARRIVAL_SECONDS);
  if (!("preset" in range)) return { from: range.from, to, known, step: length <= 120 ? 1 : step };
  return { from: Math.floor((to - length) / step) * step, to, known, step };
}

export function iso(unixSeconds: number): string {
  return new Date(unixSeconds * 1_000).toISOString();
}

function isPreset(text: string): text is Preset {
  return (PRESETS as readonly string[]).includes(text);
}

function seconds(text: string | undefined): number | undefined {
  const millis = Date.parse(text ?? "");
  return Number.isNaN(millis) ? undefined : Math.floor(millis / 1_000);
}
