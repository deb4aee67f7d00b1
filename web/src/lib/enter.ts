// Enter sends, Shift+Enter breaks the line: the same in every box where somebody writes to an agent.

/** Returns the `onkeydown` of a box whose text `send` sends. */
export function sendOnEnter(send: () => void): (event: KeyboardEvent) => void {
  return (event) => {
    // Enter also ends the choice of a character in an input method.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send();
  };
}
