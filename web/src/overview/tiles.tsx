import type { ReactNode } from "react";
import { count, rate, share } from "../format/number";
import type { Totals } from "./series";
import classes from "./tiles.module.css";

interface Props {
  totals: Totals;
  uniqueDenied: number;
  seconds: number;
}

/** The range in numbers. */
export function Tiles({ totals, uniqueDenied, seconds }: Props) {
  const perSecond = (n: number) => `${rate(n / seconds)}/s`;
  return (
    <dl className={classes.tiles}>
      <Tile label="Allowed" tone="allowed" value={count(totals.allowed)} note={perSecond(totals.allowed)} />
      <Tile label="Denied" tone="denied" value={count(totals.denied)} note={perSecond(totals.denied)} />
      <Tile label="Denied share" tone="denied" value={share(totals.deniedShare)} note="of all requests">
        <meter className={classes.meter} min={0} max={1} value={totals.deniedShare} aria-label="Denied share" />
      </Tile>
      <Tile label="Denied subjects" value={count(uniqueDenied)} note="at least so many" />
      <Tile label="Shadow-denied" tone="shadow" value={count(totals.shadow)} note="only reported" />
      <Tile
        label="Degraded"
        tone="degraded"
        value={count(totals.degraded + totals.unavailable)}
        note={totals.unavailable > 0 ? `${count(totals.unavailable)} refused with 503` : "decided without a shard"}
      />
    </dl>
  );
}

interface TileProps {
  label: string;
  value: string;
  note: string;
  tone?: "allowed" | "denied" | "shadow" | "degraded";
  children?: ReactNode;
}

function Tile({ label, value, note, tone, children }: TileProps) {
  return (
    <div className={classes.tile} data-tone={tone}>
      <dt>{label}</dt>
      <dd className={classes.value}>{value}</dd>
      <dd className={classes.note}>{children ?? note}</dd>
    </div>
  );
}
