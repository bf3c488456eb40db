/** A table that sorts, pages, opens rows, and turns into cards where the screen is narrow. */
import { ActionIcon, Pagination } from "@mantine/core";
import { Fragment, type ReactNode, useState } from "react";
import { plural } from "../format/number";
import classes from "./data-table.module.css";
import { Icon } from "./icon";

export interface Column<T> {
  key: string;
  header: string;
  cell: (row: T) => ReactNode;
  /** What to sort by; a column without it does not sort. */
  sort?: (row: T) => string | number;
  /** Numbers stand on the right. */
  numeric?: boolean;
  /** The column that takes the room that is left, and heads the card on narrow screens. */
  main?: boolean;
  /** Buttons of the row: no label on narrow screens. */
  actions?: boolean;
}

interface Props<T> {
  /** Says what the table shows, for screen readers. */
  label: string;
  columns: Column<T>[];
  rows: readonly T[];
  rowKey: (row: T) => string;
  /** What a row shows when opened. */
  detail?: (row: T) => ReactNode;
  /** Rows that must stand out. */
  tone?: (row: T) => "bad" | "denied" | "off" | undefined;
  /** Column to sort by at first; `-` before it for the largest first. */
  sortBy?: string;
  pageSize?: number;
}

export function DataTable<T>({ label, columns, rows, rowKey, detail, tone, sortBy, pageSize = 50 }: Props<T>) {
  const [sort, setSort] = useState(sortBy);
  const [page, setPage] = useState(1);
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());

  const sorted = sortRows(rows, columns, sort);
  const pages = Math.max(1, Math.ceil(sorted.length / pageSize));
  // Rows can vanish under the reader: the page is then the last one there is.
  const current = Math.min(page, pages);
  const shown = sorted.slice((current - 1) * pageSize, current * pageSize);
  const toggle = (key: string) => setOpen((old) => (old.has(key) ? without(old, key) : new Set(old).add(key)));

  return (
    <div className={classes.frame}>
      <table className={classes.table} aria-label={label}>
        <thead>
          <tr>
            {detail && <th className={classes.opener} aria-label="Details" />}
            {columns.map((column) => (
              <Heading key={column.key} column={column} sort={sort} onSort={setSort} />
            ))}
          </tr>
        </thead>
        <tbody>
          {shown.map((row) => {
            const key = rowKey(row);
            const isOpen = open.has(key);
            return (
              <Fragment key={key}>
                <tr data-tone={tone?.(row)}>
                  {detail && (
                    <td className={classes.opener}>
                      <ActionIcon
                        variant="subtle"
                        color="gray"
                        aria-expanded={isOpen}
                        aria-label={`Details of ${key}`}
                        onClick={() => toggle(key)}
                      >
                        <Icon name={isOpen ? "down" : "right"} />
                      </ActionIcon>
                    </td>
                  )}
                  {columns.map((column) => (
                    <td
                      key={column.key}
                      data-label={column.actions || column.main ? undefined : column.header}
                      data-numeric={column.numeric || undefined}
                      data-main={column.main || undefined}
                      data-actions={column.actions || undefined}
                    >
                      {column.cell(row)}
                    </td>
                  ))}
                </tr>
                {isOpen && (
                  <tr className={classes.detail}>
                    <td colSpan={columns.length + 1}>{detail?.(row)}</td>
                  </tr>
                )}
              </Fragment>
            );
          })}
        </tbody>
      </table>
      {pages > 1 && (
        <div className={classes.pages}>
          <span>{plural(sorted.length, "row")}</span>
          <Pagination
            size="sm"
            total={pages}
            value={current}
            onChange={setPage}
            getControlProps={(control) => ({ "aria-label": `${control} page` })}
            getItemProps={(n) => ({ "aria-label": `Page ${n}` })}
          />
        </div>
      )}
    </div>
  );
}

interface HeadingProps<T> {
  column: Column<T>;
  sort: string | undefined;
  onSort: (sort: string) => void;
}

function Heading<T>({ column, sort, onSort }: HeadingProps<T>) {
  const { key, header, numeric, main, actions } = column;
  const marks = { "data-numeric": numeric || undefined, "data-main": main || undefined };
  if (actions) return <th aria-label={header} />;
  if (!column.sort) {
    return (
      <th scope="col" {...marks}>
        {header}
      </th>
    );
  }
  const descending = sort === `-${key}`;
  const active = descending || sort === key;
  // Numbers are first wanted from the largest, words from A.
  const next = active ? (descending ? key : `-${key}`) : numeric ? `-${key}` : key;
  return (
    <th scope="col" {...marks} aria-sort={active ? (descending ? "descending" : "ascending") : "none"}>
      <button type="button" className={classes.sorter} data-active={active || undefined} onClick={() => onSort(next)}>
        {header}
        <Icon name={active && !descending ? "up" : "down"} size={14} />
      </button>
    </th>
  );
}

function sortRows<T>(rows: readonly T[], columns: Column<T>[], sort: string | undefined): readonly T[] {
  if (sort === undefined) return rows;
  const descending = sort.startsWith("-");
  const value = columns.find((c) => c.key === sort.replace(/^-/, ""))?.sort;
  if (!value) return rows;
  const sign = descending ? -1 : 1;
  return [...rows].sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    if (typeof x === "number" && typeof y === "number") return sign * (x - y);
    return sign * String(x).localeCompare(String(y), "en", { numeric: true });
  });
}

function without(set: ReadonlySet<string>, key: string): Set<string> {
  const rest = new Set(set);
  rest.delete(key);
  return rest;
}
