/** The traffic chart: a canvas for the eye, a sentence and a table for everyone. */
import "uplot/dist/uPlot.min.css";
import { useComputedColorScheme } from "@mantine/core";
import { useEffect, useRef, useState } from "react";
import uPlot from "uplot";
import type { Revision } from "../api/model";
import { rate } from "../format/number";
import { at } from "../format/time";
import classes from "./chart.module.css";
import { chartOptions, colourOf } from "./chart-options";
import { chartWords, type Line } from "./series";

interface Props {
  label: string;
  times: readonly number[];
  lines: readonly Line[];
  revisions: readonly Revision[];
  /** The reader dragged over a part of the chart: Unix seconds. */
  onZoom: (from: number, to: number) => void;
}

export function TrafficChart({ label, times, lines, revisions, onZoom }: Props) {
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
  const [cursor, setCursor] = useState<number | null>(null);
  const shown = lines.filter((line) => !hidden.has(line.key));
  const toggle = (key: string) =>
    setHidden((old) => {
      const next = new Set(old);
      if (!next.delete(key)) next.add(key);
      return next;
    });
  return (
    <figure className={classes.figure} aria-label={label}>
      <Legend lines={lines} hidden={hidden} cursor={cursor} onToggle={toggle} />
      <p className={classes.words}>{chartWords(lines)}</p>
      <Plot times={times} lines={shown} revisions={revisions} onZoom={onZoom} onCursor={setCursor} />
      <figcaption className={classes.moment}>
        {cursor === null ? "Drag over the chart to look closer." : at((times[cursor] ?? 0) * 1_000)}
      </figcaption>
      <AsTable times={times} lines={lines} />
    </figure>
  );
}

interface LegendProps {
  lines: readonly Line[];
  hidden: ReadonlySet<string>;
  cursor: number | null;
  onToggle: (key: string) => void;
}

function Legend({ lines, hidden, cursor, onToggle }: LegendProps) {
  return (
    <div className={classes.legend}>
      {lines.map((line) => (
        <button
          key={line.key}
          type="button"
          aria-pressed={!hidden.has(line.key)}
          title={hidden.has(line.key) ? `Show ${line.label}` : `Hide ${line.label}`}
          onClick={() => onToggle(line.key)}
        >
          <svg viewBox="0 0 24 8" aria-hidden="true" focusable="false">
            <line
              x1="1"
              y1="4"
              x2="23"
              y2="4"
              stroke={`var(${line.stroke.colour})`}
              strokeDasharray={line.stroke.dash.join(" ")}
            />
          </svg>
          <bdi>{line.label}</bdi>
          <span className="number">{rate(valueAt(line, cursor))}/s</span>
        </button>
      ))}
    </div>
  );
}

function valueAt({ rates }: Line, cursor: number | null): number {
  if (cursor !== null) return rates[cursor] ?? Number.NaN;
  return rates.findLast((value) => value !== null) ?? 0;
}

interface PlotProps extends Omit<Props, "label"> {
  onCursor: (index: number | null) => void;
}

/** The canvas. It is made anew only when lines or colours change; new data is put into it. */
function Plot({ times, lines, revisions, onZoom, onCursor }: PlotProps) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(undefined);
  const latest = useRef({ onZoom, onCursor, revisions });
  latest.current = { onZoom, onCursor, revisions };
  const data = [times as number[], ...lines.map((line) => line.rates)] as uPlot.AlignedData;
  const firstData = useRef(data);
  firstData.current = data;
  const scheme = useComputedColorScheme("light");
  const shape = lines.map((line) => `${line.key}\u0000${line.label}`).join("\u0001");
  const strokes = useRef(lines);
  strokes.current = lines;

  // biome-ignore lint/correctness/useExhaustiveDependencies: shape and scheme stand for all that the options depend on
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const options = chartOptions(element.clientWidth, strokes.current, {
      colour: (name) => colourOf(element, name),
      revisions: () => latest.current.revisions,
      onZoom: (from, to) => latest.current.onZoom(from, to),
      onCursor: (index) => latest.current.onCursor(index),
    });
    const made = new uPlot(options, firstData.current, element);
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: options.height }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = undefined;
    };
  }, [shape, scheme]);

  useEffect(() => plot.current?.setData(data));
  return <div ref={box} className={classes.plot} aria-hidden="true" />;
}

/** At most so many rows: a table is for reading. */
const MAX_ROWS = 60;

function AsTable({ times, lines }: Pick<Props, "times" | "lines">) {
  const [open, setOpen] = useState(false);
  const every = Math.max(1, Math.ceil(times.length / MAX_ROWS));
  const rows = times.map((_, i) => i).filter((i) => i % every === 0);
  return (
    <details className={classes.table} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Show as a table</summary>
      {open && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
        <div className={classes.scroll} tabIndex={0}>
          <table>
            <thead>
              <tr>
                <th scope="col">Time</th>
                {lines.map((line) => (
                  <th key={line.key} scope="col">
                    {line.label} /s
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.map((i) => (
                <tr key={times[i]}>
                  <th scope="row">{at((times[i] ?? 0) * 1_000)}</th>
                  {lines.map((line) => (
                    <td key={line.key}>{rate(line.rates[i] ?? Number.NaN)}</td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </details>
  );
}
