// One clock for all ages and countdowns: it ticks once a second, only while the page is visible, by the server's time.

import { SvelteDate } from "svelte/reactivity";

class Clock {
  private readonly date = new SvelteDate();
  skewMs = 0;

  constructor() {
    setInterval(() => !document.hidden && this.tick(), 1_000);
    document.addEventListener("visibilitychange", () => this.tick());
  }

  /** The server's time in milliseconds; reading it in a template follows the ticks. */
  get now(): number {
    return this.date.getTime() + this.skewMs;
  }

  get nowSecs(): number {
    return this.now / 1_000;
  }

  private tick(): void {
    this.date.setTime(Date.now());
  }
}

export const clock = new Clock();
