// Numbers and times for people: short, in one width where they stand in columns.

const UNITS: [number, string][] = [
  [86_400, "d"],
  [3_600, "h"],
  [60, "m"],
];

/** A duration with its largest unit: `8s`, `4m`, `3h`, `12d`. */
export function shortDuration(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  for (const [size, unit] of UNITS) if (whole >= size) return `${Math.floor(whole / size)}${unit}`;
  return `${whole}s`;
}

/** A countdown: `4:07`, and with hours `1:04:07`. */
export function countdown(seconds: number): string {
  const whole = Math.max(0, Math.ceil(seconds));
  const two = (n: number) => String(n).padStart(2, "0");
  const hours = Math.floor(whole / 3_600);
  const minutes = Math.floor((whole % 3_600) / 60);
  return hours > 0 ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
}

export function usd(amount: number | null | undefined): string {
  if (amount == null) return "–";
  if (amount > 0 && amount < 0.01) return "<$0.01";
  return `$${amount.toFixed(2)}`;
}

export function compact(n: number): string {
  return new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }).format(n);
}

export function bytes(n: number): string {
  if (n < 1_024) return `${n} B`;
  if (n < 1_024 * 1_024) return `${(n / 1_024).toFixed(n < 10_240 ? 1 : 0)} KB`;
  return `${(n / 1_024 / 1_024).toFixed(1)} MB`;
}

export function clockTime(ms: number): string {
  return new Date(ms).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
}

export function dateTime(ms: number): string {
  return new Date(ms).toLocaleString([], { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
}

export const plural = (n: number, one: string, many = `${one}s`): string => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
