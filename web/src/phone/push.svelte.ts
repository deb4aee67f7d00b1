// Messages while the page is closed: a subscription of this browser, which the server is told of.
//
// The browser's own push service carries them, encrypted for this phone alone.

import { apiUrl, explain } from "../lib/rpc.ts";

export type Call = (method: string, params: object) => Promise<unknown>;
export type PushState = "unknown" | "unsupported" | "blocked" | "off" | "on";

export class Push {
  state = $state<PushState>("unknown");
  problem = $state<string | null>(null);
  busy = $state(false);
  private worker: ServiceWorkerRegistration | null = null;

  constructor(
    private readonly call: Call,
    private readonly opened: (hash: string) => void,
  ) {}

  /** Starts the worker, and tells the server of a subscription that is there already: it may have lost it. */
  async start(): Promise<void> {
    if (!("serviceWorker" in navigator)) {
      this.state = "unsupported";
      return;
    }
    navigator.serviceWorker.addEventListener("message", ({ data }: MessageEvent<{ open?: unknown }>) => {
      if (typeof data?.open === "string") this.opened(data.open);
    });
    try {
      this.worker = await navigator.serviceWorker.register(apiUrl("sw.js"));
    } catch {
      // A certificate that the phone does not know, or a page without encryption.
      this.state = "unsupported";
      return;
    }
    if (!("PushManager" in window) || !("Notification" in window)) {
      this.state = "unsupported";
      return;
    }
    if (Notification.permission === "denied") this.state = "blocked";
    else {
      const known = await this.worker.pushManager.getSubscription().catch(() => null);
      this.state = known ? "on" : "off";
      if (known) await this.tell(known).catch(() => {});
    }
  }

  async turnOn(name: string): Promise<void> {
    if (!this.worker || this.busy) return;
    this.busy = true;
    this.problem = null;
    try {
      const permission = await Notification.requestPermission();
      if (permission !== "granted") {
        this.state = permission === "denied" ? "blocked" : "off";
        return;
      }
      const { public_key } = (await this.call("notify.push_key", {})) as { public_key: string };
      const subscription = await this.worker.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: bytesOf(public_key) });
      await this.tell(subscription, name);
      this.state = "on";
    } catch (error) {
      this.problem = `Could not turn messages on: ${explain(error)}`;
    } finally {
      this.busy = false;
    }
  }

  async turnOff(): Promise<void> {
    this.busy = true;
    try {
      const known = await this.worker?.pushManager.getSubscription();
      if (known) {
        await this.call("notify.push_unsubscribe", { endpoint: known.endpoint });
        await known.unsubscribe();
      }
      this.state = "off";
    } catch (error) {
      this.problem = `Could not turn messages off: ${explain(error)}`;
    } finally {
      this.busy = false;
    }
  }

  /** Ends the subscription here, without the server, which no longer listens to this phone. */
  async end(): Promise<void> {
    const known = await this.worker?.pushManager?.getSubscription().catch(() => null);
    await known?.unsubscribe().catch(() => {});
    const shown = (await this.worker?.getNotifications().catch(() => [])) ?? [];
    shown.forEach((note) => note.close());
  }

  private async tell(subscription: PushSubscription, name?: string): Promise<void> {
    const key = (which: PushEncryptionKeyName): string => base64url(subscription.getKey(which));
    await this.call("notify.push_subscribe", { endpoint: subscription.endpoint, p256dh: key("p256dh"), auth: key("auth"), ...(name ? { name } : {}) });
  }
}

function base64url(buffer: ArrayBuffer | null): string {
  const text = String.fromCharCode(...new Uint8Array(buffer ?? new ArrayBuffer(0)));
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(binary, (char) => char.charCodeAt(0));
}
