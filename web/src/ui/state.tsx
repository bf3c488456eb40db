/** What a page shows instead of data: nothing yet, on its way, or the reason why not. */
import { Button, Skeleton } from "@mantine/core";
import type { ReactNode } from "react";
import { asApiError } from "../api/problem";
import { Icon, type IconName } from "./icon";
import classes from "./state.module.css";

interface EmptyProps {
  icon: IconName;
  title: string;
  children?: ReactNode;
}

/** Nothing is there, and what to do about it. */
export function Empty({ icon, title, children }: EmptyProps) {
  return (
    <div className={classes.state}>
      <span className={classes.sign}>
        <Icon name={icon} size={24} />
      </span>
      <strong>{title}</strong>
      {children && <div className={classes.words}>{children}</div>}
    </div>
  );
}

/** The reason why something cannot be shown, with a way to try again. */
export function Failed({ error, retry }: { error: unknown; retry?: () => void }) {
  const { title, detail, status } = asApiError(error);
  return (
    <div className={classes.state} role="alert">
      <span className={classes.sign} data-bad>
        <Icon name="warning" size={24} />
      </span>
      <strong>{title}</strong>
      {detail && <div className={classes.words}>{detail}</div>}
      {retry && status !== 403 && (
        <Button variant="default" onClick={retry}>
          Try again
        </Button>
      )}
    </div>
  );
}

/** The first load: the outline of rows. Later loads keep the old data in place. */
export function Loading({ rows = 5 }: { rows?: number }) {
  return (
    <div className={classes.loading} aria-busy="true" role="status">
      <span className={classes.hidden}>Loading</span>
      {Array.from({ length: rows }, (_, row) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the rows are alike and never change places
        <Skeleton key={row} height={18} width={`${92 - ((row * 17) % 40)}%`} />
      ))}
    </div>
  );
}

interface LoadedProps<T> {
  query: { data: T | undefined; error: unknown; refetch: () => unknown };
  rows?: number;
  children: (data: T) => ReactNode;
}

/** The data of a query once it is there; until then why not. Data that is there stays, whatever happens to a refresh. */
export function Loaded<T>({ query, rows, children }: LoadedProps<T>) {
  if (query.data !== undefined) return <>{children(query.data)}</>;
  if (query.error) return <Failed error={query.error} retry={() => void query.refetch()} />;
  return <Loading {...(rows === undefined ? {} : { rows })} />;
}
