/** Lengths of time: `90s`, `12h` as rules write them, and as people say them. */

const UNITS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
const WORDS: [number, string][] = [
  [UNITS.d, "day"],
  [UNITS.h, "hour"],
  [UNITS.m, "minute"],
  [UNITS.s, "second"],
  [UNITS.ms, "millisecond"],
];

/** Milliseconds of a span such as `60s`; undefined if it is not one. The same grammar as the server's: one whole number and a unit. */
export function spanMillis(text: string): number | undefined {
  const found = /^([0-9]+)(ms|s|m|h|d)$/.exec(text);
  if (!found) return undefined;
  const millis = Number(found[1]) * UNITS[found[2] as keyof typeof UNITS];
  return Number.isSafeInteger(millis) ? millis : undefined;
}

/** `minute`, `90 seconds`, `2 hours 30 minutes`: for a sentence such as "100 per ...". At most two units. */
export function spanWords(text: string): string {
  const millis = spanMillis(text);
  return millis === undefined ? text : millisWords(millis);
}

/** `60s` after "per": `minute`; everything but a single unit keeps its number. */
export function perSpan(text: string): string {
  return spanWords(text).replace(/^1 (?=\w+$)/, "");
}

/** Milliseconds in words, the largest unit first, at most two units. */
export function millisWords(millis: number): string {
  if (millis === 0) return "0 seconds";
  const words: string[] = [];
  let rest = millis;
  for (const [size, word] of WORDS) {
    const n = Math.floor(rest / size);
    if (n === 0) {
      if (words.length > 0) break;
      continue;
    }
    words.push(`${n} ${word}${n === 1 ? "" : "s"}`);
    rest -= n * size;
    if (words.length === 2) break;
  }
  return words.length === 0 ? "under a millisecond" : words.join(" ");
}
