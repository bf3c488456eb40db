/** Points in time, always in the browser's zone, which pages state. */
import { millisWords } from "./span";

const dateTime = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

/** `30 Nov 2026, 17:26:05`; a dash for no time or for text that is none. */
export function at(time: string | number | null | undefined): string {
  const date = dateOf(time);
  return date === undefined ? "–" : dateTime.format(date);
}

/** `17:26:05`. */
export function timeOfDay(time: string | number): string {
  const date = dateOf(time);
  return date === undefined ? "–" : clock.format(date);
}

/** `just now`, `12 seconds ago`, `3 hours ago`, `in 2 days`: one unit, as people say it. */
export function ago(time: string | number | null | undefined, now: number): string {
  const date = dateOf(time);
  if (date === undefined) return "never";
  const difference = now - date.getTime();
  const words = oneUnit(Math.abs(difference));
  // Clocks of browser and server differ a little: the near future is now.
  if (difference > -5_000 && difference < 3_000) return "just now";
  return difference >= 0 ? `${words} ago` : `in ${words}`;
}

/** The zone in which times are shown: `Europe/Berlin (UTC+1)`. */
export function zone(now = new Date()): string {
  const name = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const minutes = -now.getTimezoneOffset();
  if (minutes === 0) return name === "UTC" ? "UTC" : `${name} (UTC)`;
  const size = Math.abs(minutes);
  const rest = size % 60 === 0 ? "" : `:${String(size % 60).padStart(2, "0")}`;
  return `${name} (UTC${minutes < 0 ? "−" : "+"}${Math.floor(size / 60)}${rest})`;
}

function oneUnit(millis: number): string {
  const size = [86_400_000, 3_600_000, 60_000, 1_000].find((unit) => millis >= unit) ?? 1_000;
  return millisWords(Math.max(1, Math.floor(millis / size)) * size)
    .split(" ")
    .slice(0, 2)
    .join(" ");
}

function dateOf(time: string | number | null | undefined): Date | undefined {
  if (time === null || time === undefined || time === "") return undefined;
  const date = new Date(time);
  return Number.isNaN(date.getTime()) ? undefined : date;
}
