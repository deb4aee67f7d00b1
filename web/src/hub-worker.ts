// The SharedWorker of all tabs of a browser. What it does is in `lib/hub.ts`.

import { Hub, type ToHub } from "./lib/hub.ts";

const hub = new Hub();

addEventListener("connect", (event) => {
  const [port] = (event as MessageEvent).ports;
  if (!port) return;
  port.onmessage = ({ data }: MessageEvent<ToHub>) => hub.take(port, data);
});
