import type { Place } from "./place";
export function ContextView(_: { session: string; place: Place; version: number; isRunning: boolean }) { return null; }
