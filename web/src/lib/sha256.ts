// SHA-256 (FIPS 180-4). The browser's own is missing on a page that came without encryption, and there too nobody may allow what
// could not be confirmed.

/** The first 32 bits of the fractional parts of the cube roots of the first 64 primes; of the square roots of the first eight. */
const [ROUNDS, START] = constants();

export function sha256(bytes: Uint8Array): string {
  const hash = Uint32Array.from(START);
  const padded = new Uint8Array(((bytes.length + 8) >> 6) * 64 + 64);
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 8, Math.floor(bytes.length / 2 ** 29));
  view.setUint32(padded.length - 4, bytes.length << 3);
  const words = new Uint32Array(64);
  for (let block = 0; block < padded.length; block += 64) {
    for (let i = 0; i < 16; i++) words[i] = view.getUint32(block + i * 4);
    mix(hash, words);
  }
  return [...hash].map((word) => word.toString(16).padStart(8, "0")).join("");
}

const turn = (word: number, bits: number): number => (word >>> bits) | (word << (32 - bits));

function mix(hash: Uint32Array, words: Uint32Array): void {
  for (let i = 16; i < 64; i++) {
    const [w15, w2] = [words[i - 15]!, words[i - 2]!];
    words[i] = words[i - 16]! + (turn(w15, 7) ^ turn(w15, 18) ^ (w15 >>> 3)) + words[i - 7]! + (turn(w2, 17) ^ turn(w2, 19) ^ (w2 >>> 10));
  }
  let [a, b, c, d, e, f, g, h] = hash as unknown as [number, number, number, number, number, number, number, number];
  for (let i = 0; i < 64; i++) {
    const one = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + ROUNDS[i]! + words[i]!) | 0;
    const two = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + one) | 0, c, b, a, (one + two) | 0];
  }
  for (const [i, word] of [a, b, c, d, e, f, g, h].entries()) hash[i] = hash[i]! + word;
}

function constants(): [Uint32Array, Uint32Array] {
  const primes: number[] = [];
  for (let n = 2; primes.length < 64; n++) if (primes.every((prime) => n % prime !== 0)) primes.push(n);
  const fraction = (root: number): number => Math.floor((root % 1) * 2 ** 32);
  return [Uint32Array.from(primes, (prime) => fraction(Math.cbrt(prime))), Uint32Array.from(primes.slice(0, 8), (prime) => fraction(Math.sqrt(prime)))];
}
