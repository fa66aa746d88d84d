// Times, in the reader's zone or in UTC. Relative ones only in lists.
import { computed, signal } from "@preact/signals";

export const inUtc = signal(false);
const zone = computed(() => (inUtc.value ? "UTC" : undefined));
const formats = new Map();

function format(name, options) {
  const key = `${name} ${zone.value}`;
  if (!formats.has(key)) formats.set(key, new Intl.DateTimeFormat("en-GB", { ...options, timeZone: zone.value }));
  return formats.get(key);
}

const CLOCK = { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false };
export const clock = (at) => format("clock", CLOCK).format(at);
export const day = (at) => format("day", { weekday: "short", day: "numeric", month: "short", year: "numeric" }).format(at);
export const minute = (at) => format("minute", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit",
  hour12: false }).format(at);
export const whole = (at) => new Date(at).toISOString();
export const zoneName = () => (inUtc.value ? "UTC" : "local time");

export function ago(at, now = Date.now()) {
  const passed = now - at;
  if (passed < -60_000 || passed >= 30 * 86_400_000) {
    return format("date", { day: "numeric", month: "short", year: "2-digit" }).format(at);
  }
  if (passed < 5000) return "now";
  for (const [unit, name] of [[86_400_000, "d"], [3_600_000, "h"], [60_000, " min"], [1000, " s"]]) {
    if (passed >= unit) return `${Math.floor(passed / unit)}${name}`;
  }
  return "now";
}
