// Makes foreign text safe to look at. What an agent prints may hold terminal escapes, control characters and invisible or
// direction-changing characters; on this page they become visible characters and nothing else.
//
// Transcripts drop colour sequences, which are only noise. What somebody is about to approve drops nothing: everything that
// runs is shown.

/** Colour and style sequences of a terminal. */
const SGR = /\u001b\[[0-9;:]*m/g;
/** C0 and C1 controls but tab and line feed, and the characters that hide or reorder their neighbours. */
// eslint-disable-next-line no-control-regex
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|\udb40[\udc00-\udc7f]/g;

function picture(char: string): string {
  const code = char.codePointAt(0) ?? 0;
  if (code < 0x20) return String.fromCodePoint(0x2400 + code);
  if (code === 0x7f) return "\u2421";
  return `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
}

/** Text of a transcript: colours dropped, line ends unified, every other control made visible. */
export function transcriptText(text: string): string {
  return text.replace(SGR, "").replaceAll("\r\n", "\n").replace(HIDDEN, picture);
}

/** The same on one line, as the terminal shows it: what breaks a line is drawn too. */
export function exactLine(text: string): string {
  return exactText(text.replaceAll("\r\n", "\u240d\u240a").replaceAll("\n", "\u240a").replaceAll("\t", "\u2409"));
}

/** Text that somebody decides about: nothing is dropped. */
export function exactText(text: string): string {
  return text.replaceAll("\r\n", "\u240d\n").replace(HIDDEN, picture);
}

/** First line of a text, cut to `max` characters, for a row that has one line. */
export function firstLine(text: string, max = 160): string {
  const head = text.slice(0, max * 4).trimStart();
  const end = head.indexOf("\n");
  const line = transcriptText(end < 0 ? head : head.slice(0, end));
  return line.length > max ? `${line.slice(0, max)}…` : line;
}

/** Cuts at `at`, or one before it when that would part a surrogate pair. */
export function safeCut(text: string, at: number): number {
  const code = text.charCodeAt(at - 1);
  return at < text.length && code >= 0xd800 && code <= 0xdbff ? at - 1 : at;
}
