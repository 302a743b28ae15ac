// JSON in which no number becomes another one: those that JavaScript would round keep their digits. Pure.

interface Source { source?: string }
const { rawJSON } = JSON as unknown as { rawJSON?: (text: string) => unknown };

/** A whole number that is too large for a number of JavaScript. */
export class LargeNumber {
  constructor(readonly digits: string) {}
  toString(): string { return this.digits; }
  valueOf(): number { return Number(this.digits); }
  toJSON(): unknown { return rawJSON ? rawJSON(this.digits) : this.digits; }
}

const WHOLE = /^-?\d+$/;

/** The number that `text` writes. */
export function numberOf(text: string): number | LargeNumber {
  const number = Number(text);
  return WHOLE.test(text) && !Number.isSafeInteger(number) ? new LargeNumber(text) : number;
}

/** The value of JSON `text`. */
export function parsed(text: string): any {
  const exact = (_key: string, value: unknown, from?: Source): unknown =>
    typeof value === "number" && from?.source !== undefined ? numberOf(from.source) : value;
  return JSON.parse(text, exact);
}

/** Whether two values are the same JSON: `1` is not `"1"`. */
export const isSame = (one: unknown, other: unknown): boolean => JSON.stringify(one) === JSON.stringify(other);
