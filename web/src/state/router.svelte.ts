// Which view is shown, kept in the address after `#`, so that links, the back button and a reload work.

export type Route =
  | { view: "queue"; approval: string | null }
  | { view: "sessions" }
  | { view: "session"; id: string; at: Place | null }
  | { view: "search"; address: string }
  | { view: "rules" }
  | { view: "suggestions" }
  | { view: "history" }
  | { view: "spend" };

/** A place in a session's timeline. */
export type Place = { chat: number; seq: number };

function parse(hash: string): Route {
  const [view, id, place] = hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  switch (view) {
    case "sessions":
      return id ? { view: "session", id, at: placeOf(place) } : { view: "sessions" };
    case "search":
      return { view, address: id ?? "" };
    case "rules":
      return { view: id === "suggested" ? "suggestions" : "rules" };
    case "history":
    case "spend":
      return { view };
    default:
      return { view: "queue", approval: id ?? null };
  }
}

function placeOf(text: string | undefined): Place | null {
  const found = /^(\d+)\.(\d+)$/.exec(text ?? "");
  return found ? { chat: Number(found[1]), seq: Number(found[2]) } : null;
}

class Router {
  route = $state.raw<Route>(parse(location.hash));

  constructor() {
    addEventListener("hashchange", () => (this.route = parse(location.hash)));
  }

  go(path: string): void {
    location.hash = path;
  }

  /** Changes the address without a step in the history, for a selection that moved. */
  replace(path: string): void {
    history.replaceState(null, "", `#${path}`);
    this.route = parse(location.hash);
  }
}

export const router = new Router();
export const links = {
  queue: (approval?: string) => (approval ? `/queue/${encodeURIComponent(approval)}` : "/queue"),
  sessions: "/sessions",
  session: (id: string, at?: Place) => `/sessions/${encodeURIComponent(id)}${at ? `/${at.chat}.${at.seq}` : ""}`,
  search: (address?: string) => (address ? `/search/${encodeURIComponent(address)}` : "/search"),
  rules: "/rules",
  suggestions: "/rules/suggested",
  history: "/history",
  spend: "/spend",
};
