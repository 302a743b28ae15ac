// The lines of a change, with a few unchanged ones around them. Pure.

export interface Line { kind: " " | "+" | "-" | "@"; text: string }

const AROUND = 3;
const MOST_CELLS = 4_000_000;

export function difference(before: string, after: string): Line[] {
  const [old, now] = [lined(before), lined(after)];
  let head = 0;
  while (head < old.length && head < now.length && old[head] === now[head]) head++;
  let tail = 0;
  while (tail < old.length - head && tail < now.length - head && old[old.length - 1 - tail] === now[now.length - 1 - tail]) tail++;
  const lines: Line[] = [
    ...old.slice(0, head).map((text): Line => ({ kind: " ", text })),
    ...middle(old.slice(head, old.length - tail), now.slice(head, now.length - tail)),
    ...old.slice(old.length - tail).map((text): Line => ({ kind: " ", text })),
  ];
  return trimmed(lines);
}

/** A text's lines; what comes after its last line break is a line only if it is not empty. */
function lined(text: string): string[] {
  const lines = text.split("\n");
  if (lines[lines.length - 1] === "") lines.pop();
  return lines;
}

/** The longest common subsequence; where that would be too much work, all lines are replaced. */
function middle(old: string[], now: string[]): Line[] {
  const width = now.length + 1;
  if ((old.length + 1) * width > MOST_CELLS)
    return [...old.map((text): Line => ({ kind: "-", text })), ...now.map((text): Line => ({ kind: "+", text }))];
  const common = new Uint32Array((old.length + 1) * width);
  for (let i = old.length - 1; i >= 0; i--)
    for (let j = now.length - 1; j >= 0; j--)
      common[i * width + j] = old[i] === now[j]
        ? common[(i + 1) * width + j + 1] + 1
        : Math.max(common[(i + 1) * width + j], common[i * width + j + 1]);
  const lines: Line[] = [];
  let i = 0;
  let j = 0;
  while (i < old.length || j < now.length) {
    if (i < old.length && j < now.length && old[i] === now[j]) {
      lines.push({ kind: " ", text: old[i] });
      i++;
      j++;
    } else if (i < old.length && (j === now.length || common[(i + 1) * width + j] >= common[i * width + j + 1]))
      lines.push({ kind: "-", text: old[i++] });
    else lines.push({ kind: "+", text: now[j++] });
  }
  return lines;
}

function trimmed(lines: Line[]): Line[] {
  const near = new Uint8Array(lines.length);
  lines.forEach((line, at) => {
    if (line.kind !== " ") near.fill(1, Math.max(0, at - AROUND), at + AROUND + 1);
  });
  const shown: Line[] = [];
  let hidden = 0;
  lines.forEach((line, at) => {
    if (near[at]) {
      if (hidden) shown.push({ kind: "@", text: `⋯ ${hidden}` });
      hidden = 0;
      shown.push(line);
    } else hidden++;
  });
  if (hidden && shown.length) shown.push({ kind: "@", text: `⋯ ${hidden}` });
  return shown;
}
