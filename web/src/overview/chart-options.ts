/** How the canvas of the traffic chart is drawn. */
import uPlot from "uplot";
import type { Revision } from "../api/model";
import { compact } from "../format/number";
import type { Line } from "./series";

interface Surroundings {
  colour: (name: string) => string;
  revisions: () => readonly Revision[];
  onZoom: (from: number, to: number) => void;
  onCursor: (index: number | null) => void;
}

const HEIGHT = 280;
const FONT = "11px Inter, system-ui, sans-serif";
/** Shorter drags are clicks. */
const MIN_DRAG = 8;

export function chartOptions(width: number, lines: readonly Line[], around: Surroundings): uPlot.Options {
  const axis = { stroke: around.colour("--ink-soft"), font: FONT, ticks: { show: false } };
  return {
    width,
    height: HEIGHT,
    padding: [18, 20, 0, 0],
    legend: { show: false },
    cursor: { drag: { x: true, y: false, setScale: false }, points: { size: 7 }, y: false },
    scales: { x: { time: true }, y: { range: (_, __, max) => [0, roomAbove(max)] } },
    axes: [
      { ...axis, size: 28, grid: { show: false }, values: timeLabels },
      {
        ...axis,
        size: 52,
        grid: { stroke: around.colour("--grid"), width: 1 },
        values: (_, ticks) => ticks.map((n) => compact(n)),
      },
    ],
    series: [{}, ...lines.map((line) => seriesOf(line, around))],
    hooks: {
      draw: [(plot) => drawRevisions(plot, around)],
      setCursor: [(plot) => around.onCursor(plot.cursor.idx ?? null)],
      setSelect: [(plot) => zoom(plot, around)],
    },
  };
}

export function colourOf(element: Element, name: string): string {
  return getComputedStyle(element).getPropertyValue(name).trim() || "gray";
}

function seriesOf(line: Line, { colour }: Surroundings): uPlot.Series {
  const stroke = colour(line.stroke.colour);
  return {
    label: line.label,
    stroke,
    width: 2,
    dash: line.stroke.dash,
    spanGaps: false,
    points: { show: false },
    // Two more digits of a hex colour are its opacity.
    ...(line.stroke.fill && /^#[0-9a-f]{6}$/i.test(stroke) ? { fill: `${stroke}1f` } : {}),
  };
}

function roomAbove(max: number | null): number {
  return max === null || max <= 0 ? 1 : max * 1.12;
}

const hour = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const second = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

/** Hours and minutes; seconds where ticks are closer than that; where a day begins, the day. */
function timeLabels(_plot: uPlot, ticks: number[], _axis: number, _space: number, apart: number): string[] {
  const close = apart < 60;
  return ticks.map((tick) => {
    const date = new Date(tick * 1_000);
    if (close) return second.format(date);
    return date.getHours() === 0 && date.getMinutes() === 0 ? day.format(date) : hour.format(date);
  });
}

/** A change of the rules is a vertical line with its revision's number. */
function drawRevisions(plot: uPlot, { colour, revisions }: Surroundings): void {
  const { ctx, bbox } = plot;
  const ratio = uPlot.pxRatio;
  ctx.save();
  ctx.strokeStyle = colour("--ink-soft");
  ctx.fillStyle = colour("--ink-soft");
  ctx.lineWidth = ratio;
  ctx.setLineDash([3 * ratio, 3 * ratio]);
  ctx.font = `${10 * ratio}px Inter, system-ui, sans-serif`;
  ctx.textAlign = "center";
  let free = Number.NEGATIVE_INFINITY;
  for (const { revision, created_at } of [...revisions()].reverse()) {
    const x = plot.valToPos(Date.parse(created_at) / 1_000, "x", true);
    if (!(x >= bbox.left && x <= bbox.left + bbox.width)) continue;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    // Labels that would overlap are left out; the list below the chart has them all.
    if (x > free) {
      ctx.fillText(`r${revision}`, x, bbox.top - 6 * ratio);
      free = x + 30 * ratio;
    }
  }
  ctx.restore();
}

function zoom(plot: uPlot, { onZoom }: Surroundings): void {
  const { left, width } = plot.select;
  if (width < MIN_DRAG) return;
  const from = Math.floor(plot.posToVal(left, "x"));
  const to = Math.ceil(plot.posToVal(left + width, "x"));
  plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  if (to > from) onZoom(from, to);
}
