// JSON in which no number becomes another one: what JavaScript would write in another way keeps its text. Pure.

interface Source { source?: string }
const { rawJSON } = JSON as unknown as { rawJSON?: (text: string) => unknown };

/** A number that JavaScript would round or write in another way: `9007199254740993`, `1.0`, `-0.0`, `1e2`. */
export class WrittenNumber {
  constructor(readonly text: string) {}
  toString(): string { return this.text; }
  valueOf(): number { return Number(this.text); }
  toJSON(): unknown { return rawJSON ? rawJSON(this.text) : this.text; }
}

const WHOLE = /^-?\d+$/;
const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;

/** The number that `text` writes; one that is no JSON, such as `.5`, as JavaScript writes it. */
export function numberOf(text: string): number | WrittenNumber {
  const number = Number(text);
  return String(number) !== text && NUMBER.test(text) ? new WrittenNumber(text) : number;
}

/** The value of JSON `text` for a program: only whole numbers that are too large keep their text. */
export function parsed(text: string): any {
  return revived(text, (source, value) => (WHOLE.test(source) ? numberOf(source) : value));
}

/** The value of JSON `text` to show or send on: every number is written as it came. */
export const parsedExactly = (text: string): any => revived(text, numberOf);

function revived(text: string, number: (source: string, value: number) => unknown): any {
  return JSON.parse(text, (_key: string, value: unknown, from?: Source): unknown =>
    typeof value === "number" && from?.source !== undefined ? number(from.source, value) : value);
}

/** Whether two values are the same JSON: `1` is not `"1"`, nor `1.0`. */
export const isSame = (one: unknown, other: unknown): boolean => JSON.stringify(one) === JSON.stringify(other);
