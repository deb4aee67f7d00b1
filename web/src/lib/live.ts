// Live pieces of what an agent says, beside the events that bring the same text whole. The two travel apart, so either may
// arrive first; what an event has brought is not shown a second time by its pieces.

/** What pieces may still owe us; more than this was missed, and will not come. */
const MAX_OWED_CHARS = 256 * 1024;

export class LiveText {
  /** Shown by pieces; its event has not come yet. */
  text = "";
  /** Brought by events; its pieces may still come. */
  private owed = "";
  /** Whether the start of a message was heard: the rest of a sentence alone says little. */
  private begun = false;

  /** Takes a piece. Returns whether the text has changed. */
  piece(piece: string): boolean {
    if (!this.begun) return false;
    if (this.owed.startsWith(piece)) {
      this.owed = this.owed.slice(piece.length);
      return false;
    }
    // The end of what was owed and the start of something new may come together; after a gap nothing is owed any more.
    const fresh = piece.startsWith(this.owed) ? piece.slice(this.owed.length) : piece;
    this.owed = "";
    this.text += fresh;
    return fresh !== "";
  }

  /** Takes a text that came whole: from now on its row shows it. */
  whole(text: string): void {
    if (this.text.startsWith(text)) this.text = this.text.slice(text.length);
    else {
      this.owed += text.startsWith(this.text) ? text.slice(this.text.length) : text;
      this.text = "";
      if (this.owed.length > MAX_OWED_CHARS) this.owed = "";
    }
  }

  /** A message begins. Text that has not become an event is void: after a broken connection to the model it comes again. */
  messageStarts(): void {
    this.begun = true;
    this.text = "";
  }

  /** The chat has ended: whatever was said is in its rows. */
  ended(): void {
    this.text = "";
  }

  /** The pieces before this moment were missed. */
  reset(): void {
    this.text = "";
    this.owed = "";
    this.begun = false;
  }
}
