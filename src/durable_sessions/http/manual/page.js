// Conveniences only: the page is complete without them.
"use strict";
const root = document.documentElement;
root.classList.add("js");

const stored = (() => { try { return localStorage.getItem("theme"); } catch { return null; } })();
if (stored) root.dataset.theme = stored;

document.getElementById("theme").addEventListener("click", () => {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try { localStorage.setItem("theme", root.dataset.theme); } catch { /* private windows keep nothing */ }
});

const field = document.getElementById("filter");
const entries = [...document.querySelectorAll("nav li")];
field.addEventListener("input", () => {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const entry of entries) {
    const text = (entry.textContent + " " + entry.dataset.path).toLowerCase();
    entry.hidden = !words.every((word) => text.includes(word));
  }
  for (const group of document.querySelectorAll("nav .group")) {
    group.hidden = ![...group.querySelectorAll("li")].some((entry) => !entry.hidden);
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== field) { event.preventDefault(); field.focus(); }
  if (event.key === "Escape" && document.activeElement === field) { field.value = ""; field.dispatchEvent(new Event("input")); field.blur(); }
});

for (const sample of document.querySelectorAll(".sample")) {
  const button = document.createElement("button");
  button.className = "copy";
  button.type = "button";
  button.textContent = "Copy";
  button.addEventListener("click", async (event) => {
    event.preventDefault();
    await navigator.clipboard.writeText(sample.querySelector("pre").textContent);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1200);
  });
  sample.querySelector("summary").append(button);
}

const links = new Map([...document.querySelectorAll("nav li a")].map((link) => [link.hash.slice(1), link]));
const seen = new IntersectionObserver((found) => {
  for (const { target, isIntersecting } of found) {
    if (!isIntersecting) continue;
    for (const link of links.values()) link.classList.remove("here");
    links.get(target.id)?.classList.add("here");
  }
}, { rootMargin: "0px 0px -75% 0px" });
for (const article of document.querySelectorAll("article[id]")) seen.observe(article);
