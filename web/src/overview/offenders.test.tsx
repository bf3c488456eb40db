import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { fireEvent, render, screen, within } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import type { TopSubject } from "../api/model";
import { Offenders } from "./offenders";

const HOSTILE = [
  "user:x');alert(1)//",
  "user:<img src=x onerror=alert(1)>",
  "user:</script ><script>alert(1)</script>",
  "javascript:alert(1)",
  "user:\u202Egnp.exe",
  `user:${"x".repeat(10_000)}`,
  '=cmd|"/c calc"!A1',
];

function row(subject: string, denied: number, allowed = 10): TopSubject {
  const seen = "2026-11-30T12:00:00.000Z";
  const denied_share = denied / (denied + allowed);
  return {
    subject,
    tier: "free",
    rules: ["search"],
    denied,
    allowed,
    denied_share,
    first_seen: seen,
    last_seen: seen,
    error: 0,
  };
}

function show(subjects: TopSubject[], needle = "") {
  const calls = { onNeedle: vi.fn(), onRule: vi.fn(), onTier: vi.fn() };
  const view = render(
    <MantineProvider>
      <QueryClientProvider client={new QueryClient()}>
        <Offenders
          domain="default"
          window={{ from: 0, to: 60, step: 10, known: 60 }}
          subjects={subjects}
          needle={needle}
          {...calls}
        />
      </QueryClientProvider>
    </MantineProvider>,
  );
  return { ...view, ...calls };
}

test("hostile names are text, whatever they hold", () => {
  const { container } = show(HOSTILE.map((subject, i) => row(subject, 100 - i)));
  for (const subject of HOSTILE) expect(screen.getByTitle(subject).textContent).toBe(subject);
  expect(container.querySelectorAll("img, script, a, [onerror], [onclick]")).toHaveLength(0);
  expect([...container.querySelectorAll("bdi")].map((element) => element.textContent)).toContain(HOSTILE[4]);
});

test("the most refused come first, and who is mostly refused stands out", () => {
  show([row("user:few", 5, 100), row("user:many", 5_000, 10)]);
  const [, first, second] = screen.getAllByRole("row");
  expect(within(first as HTMLElement).getByText("user:many")).toBeDefined();
  expect(first?.getAttribute("data-tone")).toBe("denied");
  expect(second?.getAttribute("data-tone")).toBeNull();
  expect(within(first as HTMLElement).getByText("5,000")).toBeDefined();
});

test.each(["[", "%", "\\", "😀", "("])("a filter of %s finds nothing and breaks nothing", (needle) => {
  show([row("user:a", 1)], needle);
  expect(screen.getByText("No subject matches this filter")).toBeDefined();
});

test("a rule becomes the filter of the page", () => {
  const { onRule } = show([row("user:a", 1)]);
  fireEvent.click(screen.getByRole("button", { name: "Only rule search" }));
  expect(onRule).toHaveBeenCalledWith("search");
});

test("nobody refused is said so", () => {
  show([]);
  expect(screen.getByText("Nobody was refused in this range")).toBeDefined();
});
