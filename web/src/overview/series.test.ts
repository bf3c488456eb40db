import { expect, test } from "vitest";
import type { TimeSeries } from "../api/model";
import { chartWords, groupLines, outcomeLines, totalsOf } from "./series";

type Key = TimeSeries["series"][number]["key"];

const WINDOW = { from: 1000, to: 1025, step: 10, known: 1022 };

function report(series: [Record<string, string>, number[]][]): TimeSeries {
  return {
    from: "",
    to: "",
    step_seconds: 10,
    times: [1000, 1010, 1020],
    series: series.map(([key, requests]) => ({ key: key as unknown as Key, requests, units: requests })),
  };
}

test("totals are the sums of what the chart shows", () => {
  const totals = totalsOf(
    report([
      [{ outcome: "allowed", rule: "a" }, [10, 20, 5]],
      [{ outcome: "allowed", rule: "b" }, [1, 0, 0]],
      [{ outcome: "denied" }, [4, 0, 0]],
      [{ outcome: "degraded_allowed" }, [0, 3, 0]],
      [{ outcome: "degraded_denied" }, [0, 2, 0]],
      [{ outcome: "unavailable" }, [0, 0, 5]],
      [{ outcome: "shadow_denied" }, [7, 0, 0]],
      [{ outcome: "of a newer server" }, [9, 9, 9]],
    ]),
  );
  expect(totals).toMatchObject({ allowed: 36, denied: 4, degraded: 5, unavailable: 5, shadow: 7, requests: 50 });
  expect(totals.deniedShare).toBeCloseTo(6 / 50);
  expect(totalsOf(report([])).deniedShare).toBe(0);
});

test("lines are per second, and a step that is not over has no rate", () => {
  const lines = outcomeLines(report([[{ outcome: "allowed" }, [10, 20, 5]]]), WINDOW);
  expect(lines.map((line) => line.label)).toEqual(["Allowed", "Denied"]);
  expect(lines[0]?.rates).toEqual([1, 2, null]);
  expect(lines[1]?.rates).toEqual([0, 0, null]);
});

test("lines differ without their colours too", () => {
  const outcomes = ["allowed", "denied", "shadow_denied", "degraded_allowed", "unavailable"];
  const lines = outcomeLines(report(outcomes.map((outcome) => [{ outcome }, [1, 1, 1]])), WINDOW);
  const looks = lines.map(({ stroke }) => `${stroke.dash.join()}|${stroke.colour}`);
  expect(new Set(looks).size).toBe(lines.length);
  expect(new Set(lines.slice(1).map(({ stroke }) => stroke.dash.join())).size).toBe(lines.length - 1);
});

test("many rules become a few lines and one for the rest", () => {
  const series = Array.from({ length: 9 }, (_, i): [Record<string, string>, number[]] => [
    { outcome: "denied", rule: `r${i}` },
    [10 - i, 0, 0],
  ]);
  const lines = groupLines(report([...series, [{ outcome: "allowed", rule: "r0" }, [500, 0, 0]]]), WINDOW, "rule");
  expect(lines.map((line) => line.label)).toEqual(["r0", "r1", "r2", "r3", "r4", "All others"]);
  expect(lines.reduce((sum, line) => sum + line.total, 0)).toBe(10 + 9 + 8 + 7 + 6 + 5 + 4 + 3 + 2);
});

test("what the server summed up already is among the others", () => {
  const series = report([
    [{ outcome: "denied", rule: "a" }, [1, 0, 0]],
    [{ outcome: "denied", rule: "" }, [2, 0, 0]],
    [{ outcome: "denied", other: "true" }, [30, 0, 0]],
  ]);
  const lines = groupLines(series, WINDOW, "rule");
  expect(lines.map(({ label, total }) => [label, total])).toEqual([
    ["no rule", 2],
    ["a", 1],
    ["All others", 30],
  ]);
});

test("the chart is said in words", () => {
  const words = chartWords(outcomeLines(report([[{ outcome: "denied" }, [10, 40, 5]]]), WINDOW));
  expect(words).toContain("Denied: now 4 per second, at most 4.");
  expect(chartWords([])).toBe("No traffic in this range.");
});
