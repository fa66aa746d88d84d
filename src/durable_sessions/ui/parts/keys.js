// Letters as shortcuts: only outside of fields, and only if the reader wants them.
import { useEffect } from "preact/hooks";
import { shortcuts } from "./theme.js";

const TYPED = "input, textarea, select, [contenteditable]";

/** Call `handlers[key]` when a key is pressed; names as in `KeyboardEvent.key`, with `Ctrl+` before it. */
export function useKeys(handlers, inputs = []) {
  useEffect(() => {
    let last = "";
    const pressed = (event) => {
      if (event.defaultPrevented || event.altKey) return;
      const isPlain = !event.ctrlKey && !event.metaKey;
      const isTyped = event.target.closest?.(TYPED);
      if (isPlain && (isTyped || !shortcuts.value) && event.key !== "Escape") return;
      if (document.querySelector("dialog[open]")) return; // it has keys of its own, and Escape closes it
      const key = (isPlain ? "" : "Ctrl+") + event.key;
      const twice = last === event.key && isPlain ? `${event.key}${event.key}` : "";
      last = twice ? "" : event.key;
      const handler = handlers[twice] ?? handlers[key];
      if (!handler || (isTyped && event.key === "Escape" && !handlers.Escape)) return;
      if (handler(event) !== false) event.preventDefault();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, inputs);
}

export const SHEET = [
  ["/", "Find in this view"], ["?", "This sheet"], ["j k", "Next and previous row"], ["J K", "Next and previous prompt"],
  ["e E", "Next and previous failure"], ["n N", "Next and previous hit"], ["Enter", "Open or close a row"],
  ["Ctrl K", "Find or jump: everything by name"], ["gg G", "Start and end"], ["f", "Follow what comes"], ["[ ]", "Previous and next session of the list"], ["r", "Resume this session"], ["F", "Fork from here"], ["m =", "Mark this session, compare two that are marked"], ["t", "The strip by time or by event"], ["i", "Inspector"], ["s", "State"], ["c", "Copy a link"], ["y", "Copy JSON"],
  ["u", "Copy as curl"], ["z", "UTC or local time"], ["d", "Density"], ["Esc", "Back"],
];
