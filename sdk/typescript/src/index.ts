// Supervises coding agents through a Plexus server. `wire` has the type of everything that crosses the wire.

export * from "./client.js";
export { PlexusError, ServerLost } from "./errors.js";
export type * as wire from "./wire.js";
