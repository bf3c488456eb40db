/** Numbers as people read them. English digits and separators, like the rest of the dashboard's words. */

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const compactFormat = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** `1,234,567`. */
export function count(n: number): string {
  return Number.isFinite(n) ? whole.format(n) : "–";
}

/** `1.2M`, for axes and tight places. */
export function compact(n: number): string {
  return Number.isFinite(n) ? compactFormat.format(n) : "–";
}

/** A rate with as many digits as matter: `0.25`, `12.3`, `1,480`. */
export function rate(perSecond: number): string {
  if (!Number.isFinite(perSecond)) return "–";
  const digits = perSecond === 0 || perSecond >= 100 ? 0 : perSecond >= 10 ? 1 : 2;
  return new Intl.NumberFormat("en", { maximumFractionDigits: digits }).format(perSecond);
}

/** A share of 0 to 1 as `12.5 %`; what is not nothing is never shown as 0, what is not all never as 100. */
export function share(part: number): string {
  if (!Number.isFinite(part)) return "–";
  const percent = part * 100;
  if (percent > 0 && percent < 0.1) return "< 0.1 %";
  if (percent < 100 && percent > 99.9) return "> 99.9 %";
  return `${new Intl.NumberFormat("en", { maximumFractionDigits: percent < 10 ? 1 : percent > 99 ? 1 : 0 }).format(percent)} %`;
}

/** `1 agent`, `2 agents`. */
export function plural(n: number, one: string, many = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}
