import { expect, test } from "vitest";
import { PRESETS, readRange, windowOf, writeRange } from "./range";

const NOW = Date.parse("2026-11-30T12:00:07.500Z");

test("nothing asked for is the last 15 minutes", () => {
  expect(readRange({})).toEqual({ range: { preset: "15m" } });
});

test.each(PRESETS)("preset %s survives the way through the address", (preset) => {
  expect(readRange(writeRange({ preset }))).toEqual({ range: { preset } });
});

test("a custom range survives the way through the address", () => {
  const range = { from: 1_796_000_000, to: 1_796_003_600 };
  expect(readRange(writeRange(range))).toEqual({ range });
});

test.each([
  [{ range: "5 years" }, "not a time range"],
  [{ range: "__proto__" }, "not a time range"],
  [{ from: "[" }, "both a start and an end"],
  [{ from: "2026-11-30T12:00:00Z", to: "%" }, "both a start and an end"],
  [{ from: "2026-11-30T12:00:00Z", to: "2026-11-30T11:00:00Z" }, "after its start"],
  [{ from: "2026-11-30T12:00:00Z", to: "2026-11-30T12:00:00Z" }, "after its start"],
  [{ from: "2020-01-01T00:00:00Z", to: "2026-11-30T12:00:00Z" }, "at most 366 days"],
])("%o is refused with a reason", (search, reason) => {
  const { range, problem } = readRange(search);
  expect(problem).toContain(reason);
  expect(range).toEqual({ preset: "15m" });
});

test.each(PRESETS)("%s starts on a step, ends now and has a readable number of points", (preset) => {
  const { from, to, step } = windowOf({ preset }, NOW);
  expect(from % step).toBe(0);
  expect(to).toBe(Math.floor(NOW / 1_000));
  expect((to - from) / step).toBeGreaterThan(30);
  expect((to - from) / step).toBeLessThanOrEqual(201);
});

test("a custom range keeps its ends, over a change of the clocks too", () => {
  const dst = {
    from: Date.parse("2026-03-29T00:30:00+01:00") / 1_000,
    to: Date.parse("2026-03-29T04:30:00+02:00") / 1_000,
  };
  expect(windowOf(dst, NOW)).toMatchObject(dst);
  expect(windowOf({ from: 1000, to: 1060 }, NOW).step).toBe(1);
});

test("what has just happened is not known yet", () => {
  const now = Math.floor(NOW / 1_000);
  expect(windowOf({ preset: "15m" }, NOW).known).toBe(now - 3);
  expect(windowOf({ from: now - 600, to: now + 600 }, NOW).known).toBe(now - 3);
  expect(windowOf({ from: 1000, to: 1060 }, NOW).known).toBe(1060);
});
