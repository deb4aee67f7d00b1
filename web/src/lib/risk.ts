// How much harm a waiting tool call could do, as a level with its reasons. It only orders the queue and draws the eye: it
// decides nothing, and a low level is no promise.

import { hasHidden } from "./text.ts";
import type { JsonObject } from "./wire.ts";

export type RiskLevel = "critical" | "high" | "medium" | "low";
export type Risk = { level: RiskLevel; score: number; reasons: string[] };

type Sign = { pattern: RegExp; score: number; reason: string };

/** Signs in a shell command, most harmful first. A word boundary on both sides keeps `format` from being `rm`. */
const COMMAND_SIGNS: Sign[] = [
  { pattern: /\brm\s+(-[a-z]*[rf]|--recursive|--force)/i, score: 95, reason: "deletes recursively or by force" },
  { pattern: /\b(mkfs(\.\w+)?|dd\s+[^|;]*of=|wipefs|shred)\b/, score: 98, reason: "overwrites a device or file" },
  { pattern: /\b(curl|wget)\b[^|;&]*\|\s*(sudo\s+)?\w*sh\b/, score: 97, reason: "runs a script from the network" },
  { pattern: /\b(sudo|doas|su|pkexec)\b/, score: 92, reason: "runs as another user" },
  { pattern: /(\.ssh\b|id_(rsa|ed25519)|\.aws\b|\.netrc|\.gnupg|\.env\b|credentials|secrets?\b|tokens?\b)/i, score: 88, reason: "touches what may be secrets" },
  { pattern: /\bgit\s+push\b.*(--force|-f\b|\+)/, score: 88, reason: "rewrites a remote branch" },
  { pattern: /\bgit\s+(reset\s+--hard|clean\s+-\w*[fd])/, score: 82, reason: "discards work in the repository" },
  { pattern: /\b(eval|base64\s+(-d|--decode)|xxd\s+-r)\b/, score: 85, reason: "runs or decodes hidden code" },
  { pattern: /\b(chmod|chown|chattr|setfacl)\b/, score: 75, reason: "changes permissions" },
  { pattern: /\b(kill|pkill|killall|shutdown|reboot|systemctl|service|crontab)\b/, score: 78, reason: "acts on processes or services" },
  { pattern: /\b(docker|podman|kubectl|terraform|ansible|helm)\b/, score: 78, reason: "acts on containers or infrastructure" },
  { pattern: /\b(psql|mysql|sqlite3|redis-cli|mongo\w*)\b|\b(drop|truncate)\s+(table|database)\b/i, score: 76, reason: "acts on a database" },
  { pattern: /\b(curl|wget|nc|ncat|ssh|scp|rsync|ftp|telnet)\b/, score: 74, reason: "talks to the network" },
  { pattern: /\b(npm|pnpm|yarn|pip3?|cargo|gem|go|apt(-get)?|brew)\s+(i|install|add|publish|get|exec)\b|\bnpx\b/, score: 66, reason: "installs or runs foreign code" },
  { pattern: /\bgit\s+(push|commit|merge|rebase|tag)\b/, score: 60, reason: "changes the repository's history" },
  { pattern: /\brm\b|\bmv\b|\btruncate\b|\bfind\b.*-delete\b/, score: 64, reason: "moves or deletes files" },
  { pattern: /(^|[^<>&0-9])>>?\s*(?!\/dev\/null)[^&\s|]/, score: 58, reason: "writes to a file" },
];

/** Commands that only look. All parts of a compound must be among them. */
const READ_ONLY = /^(cd|ls|cat|head|tail|wc|pwd|echo|printf|grep|rg|fd|find|tree|stat|file|which|date|env|true|sort|uniq|cut|diff|du|df|ps|git\s+(status|diff|log|show|branch|rev-parse|ls-files|blame))\b/;

const SENSITIVE_PATH = /(^|\/)(\.ssh|\.aws|\.gnupg|\.config|\.env[^/]*|\.git\/(hooks|config)|\.github\/workflows|\.bashrc|\.zshrc|\.profile|\.npmrc|\.claude)(\/|$)|^\/(etc|usr|bin|sbin|boot|var|opt|root)\//;

export function assessRisk(toolName: string, input: JsonObject, workingDir?: string): Risk {
  const reasons: string[] = [];
  let score = 0;
  const raise = (to: number, reason: string) => {
    score = Math.max(score, to);
    reasons.push(reason);
  };
  const text = (key: string): string => (typeof input[key] === "string" ? (input[key] as string) : "");

  switch (toolName) {
    case "Bash":
    case "PowerShell":
      commandRisk(text("command"), raise);
      break;
    case "Write":
    case "Edit":
    case "MultiEdit":
    case "NotebookEdit": {
      const path = text("file_path") || text("notebook_path");
      raise(50, toolName === "Write" ? "writes a whole file" : "changes a file");
      if (SENSITIVE_PATH.test(path)) raise(84, "the file configures a system or a tool");
      if (workingDir && path.startsWith("/") && !isInside(path, workingDir)) raise(72, "the file is outside the working directory");
      break;
    }
    case "WebFetch":
    case "WebSearch": {
      raise(30, toolName === "WebFetch" ? "fetches from the network" : "searches the network");
      if (/^http:/i.test(text("url"))) raise(36, "the address is not encrypted");
      if (/\/\/[^/]*@|\/\/(localhost|127\.|10\.|192\.168\.|169\.254\.|\[)/i.test(text("url"))) raise(70, "the address is local or carries a name and password");
      break;
    }
    case "Read":
    case "Glob":
    case "Grep":
    case "LS":
    case "TodoWrite": {
      raise(10, "only reads");
      const path = text("file_path") || text("path");
      if (SENSITIVE_PATH.test(path)) raise(56, "the file may hold secrets");
      break;
    }
    case "Agent":
    case "Task":
      raise(40, "starts an agent of its own");
      break;
    default:
      if (toolName.startsWith("mcp__")) raise(55, `calls ${toolName.split("__")[1] ?? "a tool server"}, whose effect is not known here`);
      else raise(45, "an unknown tool");
  }
  if (containsHidden(input)) raise(90, "holds invisible or direction-changing characters");
  return { level: levelOf(score), score, reasons };
}

function commandRisk(command: string, raise: (to: number, reason: string) => void): void {
  const found = COMMAND_SIGNS.filter((sign) => sign.pattern.test(command)).sort((a, b) => b.score - a.score);
  for (const sign of found) raise(sign.score, sign.reason);
  if (found.length > 0) return;
  const parts = command.split(/&&|\|\||[;|\n]/).map((part) => part.trim()).filter(Boolean);
  if (parts.length > 0 && parts.every((part) => READ_ONLY.test(part)) && !/[`$]\(|`/.test(command)) raise(20, "only looks, as far as its words tell");
  else raise(55, "runs a command");
}

function containsHidden(value: unknown): boolean {
  if (typeof value === "string") return hasHidden(value.replaceAll("\r\n", "\n"));
  if (Array.isArray(value)) return value.some(containsHidden);
  return typeof value === "object" && value !== null && Object.values(value).some(containsHidden);
}

function isInside(path: string, dir: string): boolean {
  return !path.split("/").includes("..") && (path === dir || path.startsWith(dir.endsWith("/") ? dir : `${dir}/`));
}

function levelOf(score: number): RiskLevel {
  if (score >= 80) return "critical";
  if (score >= 58) return "high";
  if (score >= 40) return "medium";
  return "low";
}
