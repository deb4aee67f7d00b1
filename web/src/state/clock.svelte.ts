// One clock for all ages and countdowns: it ticks once a second, only while the page is visible, by the server's time.

class Clock {
  // A plain number: a SvelteDate belongs to the component that reads it first, and stands still when that one goes.
  private date = $state(Date.now());
  skewMs = 0;

  constructor() {
    setInterval(() => !document.hidden && this.tick(), 1_000);
    document.addEventListener("visibilitychange", () => this.tick());
  }

  /** The server's time in milliseconds; reading it in a template follows the ticks. */
  get now(): number {
    return this.date + this.skewMs;
  }

  get nowSecs(): number {
    return this.now / 1_000;
  }

  private tick(): void {
    this.date = Date.now();
  }
}

export const clock = new Clock();
