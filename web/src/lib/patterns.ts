// A guess at which waiting calls a rule would cover, for servers that cannot tell (`loopback.rule_preview`).
//
// The server's rules decide; this only hints before the button is pressed, and it errs on the side of "no": a compound
// command is never said to be covered by a prefix unless each of its parts starts with it.

import type { Approval, RuleScope } from "./wire.ts";

export function mayCover(pattern: string, approval: Approval): boolean {
  const parsed = /^([\w*.-]+)(?:\(([\s\S]*)\))?$/.exec(pattern.trim());
  if (!parsed?.[1]) return false;
  const [, tool, argument] = parsed;
  if (!glob(tool, false).test(approval.tool_name)) return false;
  if (argument === undefined || argument === "*" || argument === "**") return true;
  const text = (key: string): string | null => (typeof approval.input[key] === "string" ? (approval.input[key] as string) : null);
  switch (approval.tool_name) {
    case "Bash":
      return coversCommand(argument, text("command"));
    case "WebFetch":
      return coversUrl(argument, text("url"));
    default:
      return coversPath(argument, text("file_path") ?? text("notebook_path") ?? text("path"));
  }
}

/** Whether an approval of `session` lies in `scope`, by the chain of parents that the caller knows. */
export function inScope(scope: RuleScope, session: string, ancestors: (id: string) => string[]): boolean {
  if (scope === "all") return true;
  if ("session" in scope) return scope.session === session;
  return scope.subtree === session || ancestors(session).includes(scope.subtree);
}

function coversCommand(argument: string, command: string | null): boolean {
  if (command === null || /[`$<>(){}\\]/.test(command)) return command === argument;
  const parts = command.split(/&&|\|\||[;|&\n]/).map((part) => part.trim()).filter(Boolean);
  const prefix = /^(.*?)(?::\*| \*)$/.exec(argument)?.[1];
  if (prefix === undefined) return parts.length === 1 && glob(argument, false).test(command);
  return parts.length > 0 && parts.every((part) => part === prefix || part.startsWith(`${prefix} `));
}

function coversUrl(argument: string, url: string | null): boolean {
  const domain = /^domain:(.+)$/.exec(argument)?.[1];
  if (url === null || !URL.canParse(url)) return false;
  const host = new URL(url).hostname;
  return domain !== undefined ? host === domain || glob(domain, false).test(host) : url === argument;
}

function coversPath(argument: string, path: string | null): boolean {
  if (path === null || path.split("/").includes("..")) return false;
  const absolute = argument.replace(/^\/\//, "/");
  return absolute.startsWith("/") && glob(absolute, true).test(path);
}

/** `*` within a segment and `**` over segments when `segments` is set; otherwise `*` is anything. */
function glob(pattern: string, segments: boolean): RegExp {
  const body = pattern.replace(/\*\*\/?|\*|[.+?^${}()|[\]\\]/g, (found) => {
    if (!found.startsWith("*")) return `\\${found}`;
    if (!segments || found.startsWith("**")) return ".*";
    return "[^/]*";
  });
  return new RegExp(`^${body}$`, "s");
}
