import { MantineProvider } from "@mantine/core";
import { act, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";
import { SearchInput } from "./search-input";

afterEach(() => {
  vi.useRealTimers();
});

function input(value: string, onChange: (text: string) => void) {
  return (
    <MantineProvider>
      <SearchInput label="Filter" placeholder="" value={value} onChange={onChange} />
    </MantineProvider>
  );
}

const field = () => screen.getByLabelText("Filter") as HTMLInputElement;

test("fast typing loses nothing and reaches the address once", () => {
  vi.useFakeTimers();
  const onChange = vi.fn();
  render(input("", onChange));
  const text = "user:x')%[\\";
  for (let length = 1; length <= text.length; length++) {
    fireEvent.change(field(), { target: { value: text.slice(0, length) } });
    act(() => vi.advanceTimersByTime(20));
  }
  expect(field().value).toBe(text);
  expect(onChange).not.toHaveBeenCalled();
  act(() => vi.advanceTimersByTime(1_000));
  expect(onChange.mock.calls).toEqual([[text]]);
});

test("the way back through the address is followed", () => {
  const { rerender } = render(input("abc", vi.fn()));
  rerender(input("", vi.fn()));
  expect(field().value).toBe("");
});
