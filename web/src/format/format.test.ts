import { expect, test } from "vitest";
import { compact, count, plural, rate, share } from "./number";
import { perSpan, spanMillis, spanWords } from "./span";
import { ago, at, zone } from "./time";

test("numbers have separators and as many digits as matter", () => {
  expect(count(1234567)).toBe("1,234,567");
  expect(count(Number.NaN)).toBe("–");
  expect(compact(1_250_000)).toBe("1.3M");
  expect([0, 0.254, 12.34, 1480.6].map(rate)).toEqual(["0", "0.25", "12.3", "1,481"]);
  expect(plural(1, "agent")).toBe("1 agent");
  expect(plural(2000, "agent")).toBe("2,000 agents");
});

test("a share never hides that something, or not everything, was refused", () => {
  expect(share(0)).toBe("0 %");
  expect(share(0.0001)).toBe("< 0.1 %");
  expect(share(0.032)).toBe("3.2 %");
  expect(share(0.5)).toBe("50 %");
  expect(share(0.9996)).toBe("> 99.9 %");
  expect(share(1)).toBe("100 %");
});

test("spans are read as the server reads them", () => {
  expect([..."60s 1h 500ms 366d".split(" ")].map(spanMillis)).toEqual([60_000, 3_600_000, 500, 31_622_400_000]);
  for (const bad of ["", "60", "s", "1.5s", "-1s", "1 s", "1w", "1e3s", "99999999999999999999s"]) {
    expect(spanMillis(bad), bad).toBeUndefined();
  }
});

test("spans are said as people say them", () => {
  expect(spanWords("90s")).toBe("1 minute 30 seconds");
  expect(spanWords("1500ms")).toBe("1 second 500 milliseconds");
  expect(spanWords("1d")).toBe("1 day");
  expect(spanWords("nonsense")).toBe("nonsense");
  expect(perSpan("60s")).toBe("minute");
  expect(perSpan("120s")).toBe("2 minutes");
  expect(perSpan("90s")).toBe("1 minute 30 seconds");
});

test("points in time", () => {
  const now = Date.parse("2026-11-30T12:00:00Z");
  expect(ago("2026-11-30T11:59:59Z", now)).toBe("just now");
  expect(ago("2026-11-30T11:59:48Z", now)).toBe("12 seconds ago");
  expect(ago("2026-11-30T09:10:00Z", now)).toBe("2 hours ago");
  expect(ago("2026-12-02T12:00:00Z", now)).toBe("in 2 days");
  expect(ago(null, now)).toBe("never");
  expect(ago("gibberish", now)).toBe("never");
  expect(at("gibberish")).toBe("–");
  expect(at("2026-11-30T12:00:00Z")).toContain("30 Nov 2026");
});

test("the zone is named with its distance to UTC", () => {
  const at = (minutes: number) => ({ getTimezoneOffset: () => minutes }) as Date;
  expect(zone(at(480))).toMatch(/\(UTC−8\)$/);
  expect(zone(at(-780))).toMatch(/\(UTC\+13\)$/);
  expect(zone(at(-345))).toMatch(/\(UTC\+5:45\)$/);
});
