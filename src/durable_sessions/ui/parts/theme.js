// Theme and density: by the system unless the reader chooses. The only things that are kept in the browser.
import { signal } from "@preact/signals";

const kept = (name) => { try { return localStorage.getItem(`ds-${name}`) ?? ""; } catch { return ""; } };
const keep = (name, value) => { try { localStorage.setItem(`ds-${name}`, value); } catch { /* not allowed: it lasts as long as the page */ } };

export const theme = signal(kept("theme"));
export const density = signal(kept("density"));
export const shortcuts = signal(kept("shortcuts") !== "off");

export function applyLooks() {
  const root = document.documentElement;
  root.classList.toggle("dark", theme.value === "dark");
  root.classList.toggle("light", theme.value === "light");
  root.classList.toggle("roomy", density.value === "roomy");
}

export function setTheme(value) {
  theme.value = value;
  keep("theme", value);
  applyLooks();
  dispatchEvent(new Event("ds-looks"));
}

export function toggleTheme() {
  const dark = theme.value ? theme.value === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  setTheme(dark ? "light" : "dark");
}

export function toggleDensity() {
  density.value = density.value === "roomy" ? "" : "roomy";
  keep("density", density.value);
  applyLooks();
}

export function setShortcuts(on) {
  shortcuts.value = on;
  keep("shortcuts", on ? "" : "off");
}
