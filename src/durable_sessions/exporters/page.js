"use strict";
{
  const root = document.documentElement;
  root.classList.add("scripted");
  // Parts that are still a text: elements are made of those near the screen at once, of the others in idle time.
  const waiting = new Set(document.querySelectorAll(".part > noscript"));
  const fill = (one) => {
    if (!waiting.delete(one)) return;
    one.replaceWith(document.createRange().createContextualFragment(one.textContent));
  };
  const fillAll = () => waiting.forEach(fill);
  const near = new IntersectionObserver((seen) => {
    for (const { isIntersecting, target } of seen) {
      const one = isIntersecting && target.querySelector(":scope > noscript");
      if (one) fill(one);
    }
  }, { rootMargin: "200% 0px" });
  waiting.forEach((one) => near.observe(one.parentElement));
  const idle = self.requestIdleCallback ?? ((act) => setTimeout(() => act({ timeRemaining: () => 8 }), 30));
  const fillSlowly = (time) => {
    for (const one of waiting) {
      if (time.timeRemaining() < 4) break;
      fill(one);
    }
    if (waiting.size) idle(fillSlowly);
  };
  idle(fillSlowly);

  const entries = () => document.querySelectorAll("main .entry > details, main .fold");
  const openAll = (open) => {
    fillAll();
    entries().forEach((one) => { one.open = open; });
  };
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
    const name = location.hash.slice(1);
    if (!name) return;
    for (const one of waiting) if (one.textContent.includes(`id="${name}"`)) fill(one);
    const target = document.getElementById(name);
    if (!target) return;
    const inside = target.querySelector(":scope > details");
    if (inside) inside.open = true;
    for (let one = target; one; one = one.parentElement) if (one.localName === "details") one.open = true;
    // What was never seen has the height of a guess, and takes its own while it is passed: so it is looked at again.
    const land = (times) => {
      target.scrollIntoView({ behavior: "instant" });
      if (times) requestAnimationFrame(() => land(times - 1));
    };
    land(4);
  };
  addEventListener("hashchange", reveal);
  reveal();
  let closed = [];
  addEventListener("beforeprint", () => {
    fillAll();
    closed = [...entries()].filter((one) => !one.open);
    openAll(true);
  });
  addEventListener("afterprint", () => closed.forEach((one) => { one.open = false; }));
}
