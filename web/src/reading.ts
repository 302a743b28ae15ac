// Hooks of views that read from the service.

import type { RefObject } from "preact";
import { useEffect, useState } from "preact/hooks";

/** Reads something, and again when `again` is called; the former answer stays until the next one is there. */
export function useRead<T>(read: () => Promise<T>, when: unknown[]): { value: T | null; problem: string; again: () => void } {
  const [state, setState] = useState<{ value: T | null; problem: string }>({ value: null, problem: "" });
  const [times, setTimes] = useState(0);
  useEffect(() => {
    let isOld = false;
    read().then(
      (value) => { if (!isOld) setState({ value, problem: "" }); },
      (error) => { if (!isOld) setState({ value: null, problem: messageOf(error) }); });
    return () => { isOld = true; };
  }, [...when, times]);
  return { ...state, again: () => setTimes((now) => now + 1) };
}

export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** A text once the user pauses. */
export function useSettled(text: string, milliseconds: number): string {
  const [settled, settle] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => settle(text), milliseconds);
    return () => clearTimeout(timer);
  }, [text, milliseconds]);
  return settled;
}

/** Longer than the time between the clicks of a double click. */
const LOOK_MS = 600;

/** Whether all of this has been shown for as long as a person needs to see what a press is about. */
export function useStill(...shown: unknown[]): boolean {
  const [still, setStill] = useState<unknown[]>([]);
  useEffect(() => {
    const timer = setTimeout(() => setStill(shown), LOOK_MS);
    return () => clearTimeout(timer);
  }, shown);
  return shown.every((each, at) => at in still && each === still[at]);
}

/** How often the buttons of a part have moved on the screen, for whatever reason: no event tells of each. */
export function useMoves(part: RefObject<HTMLElement | null>): number {
  const [moves, setMoves] = useState(0);
  useEffect(() => {
    let frame = 0, last = "";
    const look = () => {
      // A part that was just removed has a last frame.
      const buttons = [...(part.current?.querySelectorAll(".actions button") ?? [])];
      const place = buttons.map((each) => each.getBoundingClientRect()).map((at) => `${Math.round(at.x)},${Math.round(at.y)}`).join(" ");
      if (place !== last) setMoves((before) => before + 1);
      last = place;
      frame = requestAnimationFrame(look);
    };
    look();
    return () => cancelAnimationFrame(frame);
  }, []);
  return moves;
}
