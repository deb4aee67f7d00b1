// Whether this browser is signed in to the dashboard. A link in a message leads here on every machine; at the desk it goes on to the
// dashboard, which may answer it.

import { loadToken } from "../lib/auth.ts";
import { HUB_NAME, type FromHub, type ToHub } from "../lib/hub.ts";
import { apiUrl } from "../lib/rpc.ts";

/** Calls `found` when the dashboard is open and signed in, in this tab before or in another one now. It may never be called. */
export function findDesk(found: () => void): void {
  if (loadToken() !== null) return found();
  if (typeof SharedWorker !== "function") return;
  // The dashboard's own worker, by its own address: what this page is built with would be another one.
  const { port } = new SharedWorker(apiUrl("assets/hub.js"), { type: "module", name: HUB_NAME });
  const say = (message: ToHub) => port.postMessage(message);
  port.onmessage = ({ data }: MessageEvent<FromHub>) => {
    if (data.say !== "token") return;
    say({ say: "bye" });
    port.close();
    if (data.token !== null) found();
  };
  say({ say: "hello", token: null });
}
