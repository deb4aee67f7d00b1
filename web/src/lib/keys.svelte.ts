// The keyboard: each view lists its keys when it appears and takes them back when it goes; help is made from the same lists.
//
// Keys mean something only outside text fields. `g q` is two strokes. A key that is held down does nothing: an approval
// must never follow from a finger that stayed too long.

import { untrack } from "svelte";

export type KeyBinding = { keys: string[]; help: string; run: (event: KeyboardEvent) => void; hidden?: boolean; repeat?: boolean };
export type KeyGroup = { title: string; bindings: KeyBinding[] };

/** How long the second stroke of `g q` may take. */
const CHORD_MS = 1_200;

let groups = $state.raw<KeyGroup[]>([]);
let prefix = "";
let prefixTimer: ReturnType<typeof setTimeout> | undefined;

export const activeKeys = (): KeyGroup[] => groups;

/** Adds keys; the returned function takes them back. The latest group wins. Use inside `$effect`. */
export function useKeys(title: string, bindings: KeyBinding[]): () => void {
  const group = { title, bindings };
  // Read without tracking: the effect that adds a group must not run again because of it.
  groups = untrack(() => [...groups, group]);
  return () => {
    groups = untrack(() => groups.filter((other) => other !== group));
  };
}

export function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target instanceof HTMLInputElement) return !["checkbox", "radio", "button", "submit"].includes(target.type);
  return target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement || target.isContentEditable;
}

export function handleKey(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (document.querySelector("dialog[open]")) return;
  if (isTyping(event.target)) {
    // Escape leaves the field, so that the keys work again.
    if (event.key === "Escape") (event.target as HTMLElement).blur();
    return;
  }
  // Arrows move within a group of choices.
  if (event.target instanceof HTMLInputElement && event.target.type === "radio" && event.key.startsWith("Arrow")) return;
  // Enter and Space belong to the button or link that has the focus.
  const onControl = event.target instanceof HTMLElement && event.target.closest("button, a[href], summary, input") !== null;
  if (onControl && (event.key === "Enter" || event.key === " ")) return;

  const stroke = prefix + event.key;
  clearPrefix();
  const binding = find(stroke) ?? find(event.key);
  if (binding) {
    event.preventDefault();
    if (!event.repeat || binding.repeat) binding.run(event);
  } else if (groups.some((group) => group.bindings.some((b) => b.keys.some((key) => key.startsWith(`${event.key} `))))) {
    event.preventDefault();
    prefix = `${event.key} `;
    prefixTimer = setTimeout(clearPrefix, CHORD_MS);
  }
}

function find(stroke: string): KeyBinding | undefined {
  for (const group of groups.toReversed()) {
    const binding = group.bindings.find((b) => b.keys.includes(stroke));
    if (binding) return binding;
  }
  return undefined;
}

function clearPrefix(): void {
  clearTimeout(prefixTimer);
  prefix = "";
}
