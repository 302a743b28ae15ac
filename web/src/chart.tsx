// Steps as stacked columns: tokens by source, by what the cache did, or money. A canvas cannot read CSS variables that depend on the theme, so their colours are
// taken from an element first.

import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { money, number, short, t } from "./i18n";
import type { StepInfo } from "./ledger";

export const FIXED = "prompt and tools";
const MOST_SOURCES = 8;
export const OTHERS = "…";

export const MEASURES = ["sources", "cache", "cost"] as const;
export type Measure = (typeof MEASURES)[number];

/** One layer of the columns: its value at each step, in tokens or US dollars. */
export interface Stack { name: string; color: string; values: number[] }

const KNOWN: Record<string, number> = { [FIXED]: 0, user: 1, assistant: 2, summary: 3, [OTHERS]: 9 };
const FIRST_FREE = 4;
const LAST_FREE = 8;

export function stacksOf(steps: StepInfo[], measure: Measure): Stack[] {
  const stack = (name: string, place: number, value: (step: StepInfo) => number): Stack => ({ name, color: `--s${place}`, values: steps.map(value) });
  if (measure === "cost") return [stack("call", 1, (each) => each.cost_usd ?? 0), stack("policies", 3, (each) => each.policy_cost_usd ?? 0)];
  if (measure === "cache")
    return [
      stack("read", 4, (each) => each.usage?.cache_read_tokens ?? 0),
      stack("written", 3, (each) => each.usage?.cache_write_tokens ?? 0),
      stack("fresh", 0, ({ usage }) => (usage ? Math.max(0, usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens) : 0)),
    ];
  return sourcesOf(steps);
}

/** Each source's tokens by step: the fixed part first, then the largest sources, the rest as one. */
function sourcesOf(steps: StepInfo[]): Stack[] {
  const totals = new Map<string, number>();
  for (const step of steps) for (const [source, tokens] of Object.entries(step.by_source)) totals.set(source, (totals.get(source) ?? 0) + tokens);
  const ordered = [...totals].sort((one, other) => other[1] - one[1]).map(([source]) => source);
  const own = new Set(ordered.filter((each, at) => at < MOST_SOURCES || each in KNOWN));
  let free = FIRST_FREE;
  const stack = (name: string, values: number[]): Stack => {
    const place = KNOWN[name] ?? (free > LAST_FREE ? ((free++ - FIRST_FREE) % (LAST_FREE - FIRST_FREE + 1)) + FIRST_FREE : free++);
    return { name, color: `--s${place}`, values };
  };
  const stacks = [stack(FIXED, steps.map((each) => each.fixed_tokens))];
  for (const source of own) stacks.push(stack(source, steps.map((each) => each.by_source[source] ?? 0)));
  if (own.size < ordered.length)
    stacks.push(stack(OTHERS, steps.map((each) => Object.entries(each.by_source).reduce((sum, [source, tokens]) => sum + (own.has(source) ? 0 : tokens), 0))));
  return stacks;
}

export const isCompacted = (step: StepInfo): boolean => step.decisions.some((each) => each.admitted && each.kind !== "pin");

function colorOf(element: Element, variable: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${variable})`;
  element.append(probe);
  const color = getComputedStyle(probe).color;
  probe.remove();
  return color;
}

/** For each layer, how high it and those below it reach at each step. */
function heightsOf(stacks: Stack[]): number[][] {
  const heights: number[][] = [];
  stacks.forEach((each, at) => heights.push(each.values.map((value, step) => value + (at ? heights[at - 1][step] : 0))));
  return heights;
}

const HEIGHT = 250;

export function Chart(props: {
  steps: StepInfo[]; stacks: Stack[]; measure: Measure; title: string; chosen: number; hover: (at: number | null) => void;
  /** The step that was clicked, and the layer that was, if one was. */
  choose: (step: number, stack: string | null) => void;
  /** The least height of the scale, so that two charts can be compared. */
  least?: number;
}) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const newest = useRef(props);
  newest.current = props;
  const { steps, stacks } = props;

  useLayoutEffect(() => {
    const place = box.current!;
    const make = () => {
      plot.current?.destroy();
      const cumulated = heightsOf(stacks);
      const most = Math.max(props.least ?? 0, ...(cumulated[cumulated.length - 1] ?? [])) || 1;
      const limits = steps.map((each) => (props.measure === "sources" && each.input_limit_tokens) || null);
      const hasLimit = limits.some((each) => each !== null && each <= most * 1.6);
      const [line, dim, accent, ask, bad] = ["--line", "--dim", "--accent", "--ask", "--bad"].map((each) => colorOf(place, each));
      const bars = steps.length <= 160 ? uPlot.paths.bars!({ size: [0.82, 44], gap: 1 }) : uPlot.paths.stepped!({ align: 1 });
      // The highest stack is drawn first, and each lower one over it.
      const order = stacks.map((_, at) => at).reverse();
      const font = "11px system-ui, sans-serif";
      plot.current = new uPlot(
        {
          width: place.clientWidth, height: HEIGHT, padding: [16, 8, 0, 0],
          legend: { show: false },
          cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
          scales: { x: { time: false, range: (_, low, high) => [low - 0.6, high + 0.6] }, y: { range: [0, hasLimit ? Math.max(most, ...limits.map((each) => each ?? 0)) * 1.05 : most * 1.12] } },
          axes: [
            { stroke: dim, font, grid: { show: false }, ticks: { show: false }, size: 26, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000] },
            { stroke: dim, font, grid: { stroke: line, width: 1 }, ticks: { show: false }, size: props.measure === "cost" ? 66 : 46, values: (_, marks) => marks.map(props.measure === "cost" ? money : short) },
          ],
          series: [
            {},
            ...order.map((at): uPlot.Series => ({ label: stacks[at].name, fill: colorOf(place, stacks[at].color), width: 0, paths: bars, points: { show: false } })),
            ...(hasLimit ? [{ label: t("limit"), stroke: bad, width: 1, dash: [5, 4], points: { show: false } }] : []),
          ],
          hooks: {
            drawAxes: [(self: uPlot) => {
              const at = newest.current.steps.findIndex((each) => each.number === newest.current.chosen);
              if (at < 0) return;
              const { ctx, bbox } = self;
              const left = self.valToPos(steps[at].number - 0.5, "x", true);
              const right = self.valToPos(steps[at].number + 0.5, "x", true);
              ctx.save();
              ctx.fillStyle = accent;
              ctx.globalAlpha = 0.16;
              ctx.fillRect(left, bbox.top, Math.max(3, right - left), bbox.height);
              ctx.restore();
            }],
            draw: [(self: uPlot) => {
              const { ctx, bbox } = self;
              const size = 5 * devicePixelRatio;
              ctx.save();
              ctx.fillStyle = ask;
              for (const each of steps) {
                if (!isCompacted(each)) continue;
                const x = self.valToPos(each.number, "x", true);
                ctx.beginPath();
                ctx.moveTo(x - size, bbox.top - 2.4 * size);
                ctx.lineTo(x + size, bbox.top - 2.4 * size);
                ctx.lineTo(x, bbox.top - 0.8 * size);
                ctx.fill();
              }
              ctx.restore();
            }],
            setCursor: [(self: uPlot) => newest.current.hover(self.cursor.idx ?? null)],
          },
        },
        [steps.map((each) => each.number), ...order.map((at) => cumulated[at]), ...(hasLimit ? [limits] : [])],
        place,
      );
    };
    make();
    const watcher = new ResizeObserver(() => plot.current?.setSize({ width: place.clientWidth, height: HEIGHT }));
    watcher.observe(place);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", make);
    window.addEventListener("themechange", make);
    return () => {
      watcher.disconnect();
      dark.removeEventListener("change", make);
      window.removeEventListener("themechange", make);
      plot.current?.destroy();
      plot.current = null;
    };
  }, [steps, stacks]);
  useEffect(() => plot.current?.redraw(false), [props.chosen]);

  const onClick = () => {
    const at = plot.current?.cursor.idx;
    if (at === null || at === undefined || !steps[at]) return;
    const height = plot.current!.posToVal(plot.current!.cursor.top!, "y");
    const layer = heightsOf(stacks).findIndex((each) => height <= each[at]);
    props.choose(steps[at].number, stacks[layer]?.name ?? null);
  };
  const last = steps[steps.length - 1];
  return (
    <div
      ref={box} class="plot" onClick={onClick} onMouseLeave={() => props.hover(null)} role="img"
      aria-label={`${props.title}: ${steps.length}; ${last ? number(last.sent_tokens) : 0}`}
    />
  );
}
