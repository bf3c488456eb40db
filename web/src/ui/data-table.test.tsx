import { MantineProvider } from "@mantine/core";
import { fireEvent, render, screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { type Column, DataTable } from "./data-table";

interface Row {
  name: string;
  size: number;
}

const COLUMNS: Column<Row>[] = [
  { key: "name", header: "Name", main: true, sort: (row) => row.name, cell: (row) => row.name },
  { key: "size", header: "Size", numeric: true, sort: (row) => row.size, cell: (row) => row.size },
];

function table(rows: Row[], pageSize = 2) {
  return (
    <MantineProvider>
      <DataTable
        label="Things"
        columns={COLUMNS}
        rows={rows}
        rowKey={(row) => row.name}
        pageSize={pageSize}
        detail={(row) => `about ${row.name}`}
      />
    </MantineProvider>
  );
}

const names = () => [...document.querySelectorAll("td[data-main]")].map((cell) => cell.textContent);

test("a number is first sorted from the largest, then from the smallest", () => {
  render(
    table(
      [
        { name: "r2", size: 5 },
        { name: "r10", size: 50 },
        { name: "r1", size: 7 },
      ],
      10,
    ),
  );
  fireEvent.click(screen.getByRole("button", { name: "Size" }));
  expect(names()).toEqual(["r10", "r1", "r2"]);
  expect(screen.getByRole("columnheader", { name: "Size" }).getAttribute("aria-sort")).toBe("descending");
  fireEvent.click(screen.getByRole("button", { name: "Size" }));
  expect(names()).toEqual(["r2", "r1", "r10"]);
  fireEvent.click(screen.getByRole("button", { name: "Name" }));
  expect(names()).toEqual(["r1", "r2", "r10"]);
});

test("when the last row of the last page goes, the page before is shown", () => {
  const rows = [1, 2, 3].map((n) => ({ name: `r${n}`, size: n }));
  const { rerender } = render(table(rows));
  fireEvent.click(screen.getByRole("button", { name: "Page 2" }));
  expect(names()).toEqual(["r3"]);
  rerender(table(rows.slice(0, 2)));
  expect(names()).toEqual(["r1", "r2"]);
});

test("a row opens and closes", () => {
  render(table([{ name: "r1", size: 1 }]));
  const button = screen.getByRole("button", { name: "Details of r1" });
  fireEvent.click(button);
  expect(screen.getByText("about r1")).toBeDefined();
  expect(button.getAttribute("aria-expanded")).toBe("true");
  fireEvent.click(button);
  expect(screen.queryByText("about r1")).toBeNull();
});
