// Which view is shown, kept in the address after `#`, so that links, the back button and a reload work.

export type Route =
  | { view: "queue"; approval: string | null }
  | { view: "sessions" }
  | { view: "session"; id: string }
  | { view: "rules" }
  | { view: "history" }
  | { view: "spend" };

function parse(hash: string): Route {
  const [view, id] = hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  switch (view) {
    case "sessions":
      return id ? { view: "session", id } : { view: "sessions" };
    case "rules":
    case "history":
    case "spend":
      return { view };
    default:
      return { view: "queue", approval: id ?? null };
  }
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
  session: (id: string) => `/sessions/${encodeURIComponent(id)}`,
  rules: "/rules",
  history: "/history",
  spend: "/spend",
};
