// Short messages about what just happened. Errors stay until they are closed, the rest leaves by itself.

export type Tone = "ok" | "info" | "error";
export type Toast = { id: number; tone: Tone; text: string };

const SHOWN_MS = 6_000;
const MAX_SHOWN = 4;

class Toasts {
  list = $state.raw<Toast[]>([]);
  private nextId = 1;

  show(tone: Tone, text: string): void {
    const toast = { id: this.nextId++, tone, text };
    this.list = [...this.list, toast].slice(-MAX_SHOWN);
    if (tone !== "error") setTimeout(() => this.close(toast.id), SHOWN_MS);
  }

  close(id: number): void {
    this.list = this.list.filter((toast) => toast.id !== id);
  }
}

export const toasts = new Toasts();
