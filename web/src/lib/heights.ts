// Heights of the rows of a virtual list, with sums in logarithmic time (a Fenwick tree), so that fifty thousand rows of
// different height can be measured, hidden and scrolled one by one.

export class Heights {
  private values: Float64Array;
  private sums: Float64Array;
  length = 0;

  constructor(capacity = 1_024) {
    this.values = new Float64Array(capacity);
    this.sums = new Float64Array(capacity + 1);
  }

  get(index: number): number {
    return this.values[index] ?? 0;
  }

  set(index: number, height: number): void {
    const delta = height - this.get(index);
    if (delta === 0) return;
    this.values[index] = height;
    for (let i = index + 1; i <= this.length; i += i & -i) this.sums[i] = this.sums[i]! + delta;
  }

  push(height: number): void {
    if (this.length === this.values.length) this.grow();
    const index = this.length++;
    this.values[index] = height;
    const at = index + 1;
    // A node of the tree sums the values below it: this one and the finished nodes just before it.
    let sum = height;
    for (let step = 1; step < (at & -at); step <<= 1) sum += this.sums[at - step]!;
    this.sums[at] = sum;
  }

  total(): number {
    return this.before(this.length);
  }

  /** Sum of the heights of all rows before `index`. */
  before(index: number): number {
    let sum = 0;
    for (let i = Math.min(index, this.length); i > 0; i -= i & -i) sum += this.sums[i]!;
    return sum;
  }

  /** The row that covers `offset`, or the last one when the offset lies beyond the end. */
  at(offset: number): number {
    let position = 0;
    let rest = offset;
    let step = 1;
    while (step * 2 <= this.length) step *= 2;
    for (; step > 0; step >>= 1) {
      const next = position + step;
      if (next <= this.length && this.sums[next]! <= rest) {
        position = next;
        rest -= this.sums[next]!;
      }
    }
    return Math.min(position, Math.max(0, this.length - 1));
  }

  private grow(): void {
    const capacity = Math.max(1_024, this.values.length * 2);
    const values = new Float64Array(capacity);
    values.set(this.values);
    const sums = new Float64Array(capacity + 1);
    sums.set(this.sums);
    this.values = values;
    this.sums = sums;
  }
}
