// Line differences for edits: Myers' algorithm with a bound, and the changed middle of two similar lines.
//
// The bound keeps a hostile pair of texts from holding the page: beyond it, the old text is shown as removed and the new one
// as added, which is true, only longer.

export type DiffLine = { kind: "same" | "add" | "del"; text: string; oldNo: number | null; newNo: number | null; mark?: [number, number] };

/** Edits looked for before giving up; work and memory grow with its square. */
const MAX_EDITS = 1_000;

export function diffLines(before: string, after: string): DiffLine[] {
  const a = splitLines(before);
  const b = splitLines(after);
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;

  const lines: DiffLine[] = [];
  let oldNo = 1;
  let newNo = 1;
  const same = (text: string) => lines.push({ kind: "same", text, oldNo: oldNo++, newNo: newNo++ });
  const del = (text: string) => lines.push({ kind: "del", text, oldNo: oldNo++, newNo: null });
  const add = (text: string) => lines.push({ kind: "add", text, oldNo: null, newNo: newNo++ });

  for (let i = 0; i < head; i++) same(a[i]!);
  const midA = a.slice(head, a.length - tail);
  const midB = b.slice(head, b.length - tail);
  for (const step of myers(midA, midB)) {
    if (step.kind === "same") same(step.text);
    else if (step.kind === "del") del(step.text);
    else add(step.text);
  }
  for (let i = a.length - tail; i < a.length; i++) same(a[i]!);
  markChangedMiddles(lines);
  return lines;
}

/** A final line end makes no empty last line; an empty text has no lines. */
function splitLines(text: string): string[] {
  if (text === "") return [];
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

type Step = { kind: "same" | "add" | "del"; text: string };

function myers(a: string[], b: string[]): Step[] {
  if (a.length === 0) return b.map((text) => ({ kind: "add", text }));
  if (b.length === 0) return a.map((text) => ({ kind: "del", text }));
  const max = Math.min(a.length + b.length, MAX_EDITS);
  const offset = max + 1;
  const v = new Int32Array(2 * max + 3);
  const trace: Int32Array[] = [];
  for (let d = 0; d <= max; d++) {
    trace.push(v.slice(offset - d - 1, offset + d + 2));
    for (let k = -d; k <= d; k += 2) {
      const down = k === -d || (k !== d && v[offset + k - 1]! < v[offset + k + 1]!);
      let x = down ? v[offset + k + 1]! : v[offset + k - 1]! + 1;
      let y = x - k;
      while (x < a.length && y < b.length && a[x] === b[y]) {
        x++;
        y++;
      }
      v[offset + k] = x;
      if (x >= a.length && y >= b.length) return backtrack(a, b, trace, d);
    }
  }
  return [...a.map((text): Step => ({ kind: "del", text })), ...b.map((text): Step => ({ kind: "add", text }))];
}

function backtrack(a: string[], b: string[], trace: Int32Array[], edits: number): Step[] {
  const steps: Step[] = [];
  let x = a.length;
  let y = b.length;
  for (let d = edits; d > 0; d--) {
    const v = trace[d]!;
    const at = (k: number) => v[k + d + 1]!;
    const k = x - y;
    const down = k === -d || (k !== d && at(k - 1) < at(k + 1));
    const prevK = down ? k + 1 : k - 1;
    const prevX = at(prevK);
    const prevY = prevX - prevK;
    while (x > prevX && y > prevY) {
      steps.push({ kind: "same", text: a[--x]! });
      y--;
    }
    if (down) steps.push({ kind: "add", text: b[--y]! });
    else steps.push({ kind: "del", text: a[--x]! });
  }
  while (x > 0 && y > 0) {
    steps.push({ kind: "same", text: a[--x]! });
    y--;
  }
  return steps.reverse();
}

/** In a run of removed lines followed by as many added ones, marks what differs within each pair. */
function markChangedMiddles(lines: DiffLine[]): void {
  for (let i = 0; i < lines.length; ) {
    if (lines[i]!.kind !== "del") {
      i++;
      continue;
    }
    let dels = i;
    while (lines[dels]?.kind === "del") dels++;
    let adds = dels;
    while (lines[adds]?.kind === "add") adds++;
    const pairs = dels - i === adds - dels ? dels - i : 0;
    for (let p = 0; p < pairs; p++) markPair(lines[i + p]!, lines[dels + p]!);
    i = adds;
  }
}

function markPair(del: DiffLine, add: DiffLine): void {
  const a = del.text;
  const b = add.text;
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  // Two lines with little in common read better as a plain replacement.
  if (head + tail < Math.min(a.length, b.length) * 0.4) return;
  del.mark = [head, a.length - tail];
  add.mark = [head, b.length - tail];
}

export type DiffHunk = { folded: boolean; lines: DiffLine[] };

/** Groups lines so that long unchanged stretches can be folded, with `context` lines kept around each change. */
export function foldUnchanged(lines: DiffLine[], context = 3): DiffHunk[] {
  const keep = new Uint8Array(lines.length);
  lines.forEach((line, i) => {
    if (line.kind !== "same") keep.fill(1, Math.max(0, i - context), Math.min(lines.length, i + context + 1));
  });
  const hunks: DiffHunk[] = [];
  for (const [i, line] of lines.entries()) {
    const folded = keep[i] === 0;
    const last = hunks.at(-1);
    if (last && last.folded === folded) last.lines.push(line);
    else hunks.push({ folded, lines: [line] });
  }
  return hunks;
}
