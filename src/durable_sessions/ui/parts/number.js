// Numbers for people: one function for each kind.

const UNITS = ["", "k", "M", "G", "T"];

export function short(number) {
  let amount = number, unit = 0;
  while (amount >= 1000 && unit < UNITS.length - 1) { amount /= 1000; unit++; }
  const digits = unit === 0 || amount >= 100 ? 0 : 1;
  return amount.toFixed(digits).replace(/\.0$/, "") + UNITS[unit];
}

export const exact = (number) => number.toLocaleString("en-US");

export function duration(ms) {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))}ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)}s`;
  const seconds = Math.round(ms / 1000);
  for (const [larger, smaller, names] of [[86_400, 3_600, "dh"], [3_600, 60, "hm"], [60, 1, "ms"]]) {
    if (seconds < larger) continue;
    const rest = Math.floor((seconds % larger) / smaller);
    return `${Math.floor(seconds / larger)}${names[0]}${rest ? ` ${rest}${names[1]}` : ""}`;
  }
  return `${seconds}s`;
}

export function money(dollars) {
  return dollars >= 1 ? `$${dollars.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`
    : `$${dollars.toFixed(4)}`;
}
