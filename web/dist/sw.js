// The service worker of the page for phones: shows what the server pushes, and opens the one approval when it is tapped.
//
// It holds no token and asks the server for nothing: the page does. A message says `{title, body, url, approval_id?, tag}`;
// what cannot be read is still shown, because a browser shows something of its own otherwise.

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const MAX_TEXT = 400;

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

self.addEventListener("push", (event) => {
  const note = read(event.data);
  event.waitUntil(
    self.registration.showNotification(note.title, {
      body: note.body,
      // A newer message about the same thing replaces the older one.
      tag: note.tag,
      renotify: true,
      icon: "./icon-192.png",
      data: { url: note.url },
    }),
  );
});

self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(open(event.notification.data?.url ?? page("")));
});

/** The address of the page, at an approval or at the list. */
function page(hash) {
  return new URL(`phone${hash}`, self.registration.scope).href;
}

function text(value, otherwise) {
  return typeof value === "string" && value !== "" ? value.slice(0, MAX_TEXT) : otherwise;
}

function read(data) {
  let said;
  try {
    said = data?.json();
  } catch {
    said = null;
  }
  if (typeof said !== "object" || said === null) said = {};
  const approval = typeof said.approval_id === "string" && UUID.test(said.approval_id) ? said.approval_id : null;
  return {
    title: text(said.title, "Plexus"),
    body: text(said.body, "Something waits for your answer."),
    tag: text(said.tag, approval ?? "plexus"),
    url: page(approval === null ? "" : `#/approve/${approval}`),
  };
}

/** Shows `url` in the page that is open, else in a new window. */
async function open(url) {
  const windows = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
  const own = windows.find((client) => new URL(client.url).pathname === new URL(url).pathname);
  if (!own) return self.clients.openWindow(url);
  own.postMessage({ open: new URL(url).hash });
  // Some browsers focus nothing without a real tap; the page shows it all the same.
  return own.focus().catch(() => {});
}
