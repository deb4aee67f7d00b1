// What this browser prefers: the theme, and whether to notify. Kept in localStorage; nothing in it is secret.

export type Theme = "auto" | "light" | "dark";
const THEMES: Theme[] = ["auto", "light", "dark"];

function stored<T extends string>(key: string, values: readonly T[], fallback: T): T {
  const value = localStorage.getItem(key);
  return values.find((v) => v === value) ?? fallback;
}

class Prefs {
  theme = $state<Theme>(stored("plexus.theme", THEMES, "auto"));
  notify = $state(stored("plexus.notify", ["on", "off"], "off") === "on" && permission() === "granted");

  constructor() {
    this.applyTheme();
  }

  nextTheme(): void {
    this.theme = THEMES[(THEMES.indexOf(this.theme) + 1) % THEMES.length]!;
    localStorage.setItem("plexus.theme", this.theme);
    this.applyTheme();
  }

  private applyTheme(): void {
    // Every colour is a `light-dark()` pair, so the scheme of the root element is all that changes.
    document.documentElement.style.colorScheme = this.theme === "auto" ? "light dark" : this.theme;
  }

  /** Asks the browser, which asks the person, and only after a button was pressed. Returns why it stays off, if it does. */
  async toggleNotify(): Promise<string | null> {
    if (this.notify) {
      this.setNotify(false);
      return null;
    }
    if (permission() === "unsupported") return "This browser has no desktop notifications.";
    const answer = await Notification.requestPermission();
    this.setNotify(answer === "granted");
    return answer === "granted" ? null : "The browser does not allow notifications from this page.";
  }

  private setNotify(on: boolean): void {
    this.notify = on;
    localStorage.setItem("plexus.notify", on ? "on" : "off");
  }
}

function permission(): string {
  return typeof Notification === "undefined" ? "unsupported" : Notification.permission;
}

export const prefs = new Prefs();
