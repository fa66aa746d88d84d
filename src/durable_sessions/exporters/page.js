"use strict";
{
  const root = document.documentElement;
  root.classList.add("scripted");
  const entries = () => document.querySelectorAll("main .entry > details, main .fold");
  const openAll = (open) => entries().forEach((one) => { one.open = open; });
  const on = (id, act) => document.getElementById(id).addEventListener("click", act);
  on("open-all", () => openAll(true));
  on("close-all", () => openAll(false));
  on("theme", () => {
    const dark = root.classList.contains("dark")
      || (!root.classList.contains("light") && matchMedia("(prefers-color-scheme: dark)").matches);
    root.classList.toggle("dark", !dark);
    root.classList.toggle("light", dark);
  });
  const reveal = () => {
    const target = document.getElementById(location.hash.slice(1));
    if (!target) return;
    const inside = target.querySelector(":scope > details");
    if (inside) inside.open = true;
    for (let one = target; one; one = one.parentElement) if (one.localName === "details") one.open = true;
    target.scrollIntoView();
  };
  addEventListener("hashchange", reveal);
  reveal();
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...entries()].filter((one) => !one.open);
    openAll(true);
  });
  addEventListener("afterprint", () => closed.forEach((one) => { one.open = false; }));
}
