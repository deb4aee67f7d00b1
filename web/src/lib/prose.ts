// Cuts an agent's text into blocks and spans that can be set well: code, headings, emphasis. The result is data, never markup:
// whoever draws it makes text nodes.

export type Span = { kind: "text" | "code" | "strong"; text: string };
export type Block = { kind: "code"; text: string; language: string } | { kind: "heading" | "text"; spans: Span[] };

export function proseBlocks(text: string): Block[] {
  const blocks: Block[] = [];
  let lines: string[] = [];
  let fence: { mark: string; language: string } | null = null;
  const flush = () => {
    const body = lines.join("\n");
    lines = [];
    if (fence) blocks.push({ kind: "code", text: body, language: fence.language });
    else if (body.trim() !== "") blocks.push({ kind: "text", spans: spans(body.replace(/^\n+|\n+$/g, "")) });
  };
  for (const line of text.split("\n")) {
    const mark = /^\s*(```+|~~~+)\s*([\w+#.-]*)/.exec(line);
    if (fence ? line.trim() === fence.mark : mark) {
      flush();
      fence = fence ? null : { mark: mark![1]!, language: mark![2]! };
      continue;
    }
    const heading = fence ? null : /^#{1,6}\s+(.*)$/.exec(line);
    if (heading) {
      flush();
      blocks.push({ kind: "heading", spans: spans(heading[1]!) });
    } else {
      lines.push(line);
    }
  }
  flush();
  return blocks;
}

function spans(text: string): Span[] {
  const found: Span[] = [];
  let at = 0;
  for (const match of text.matchAll(/`([^`\n]{1,400})`|\*\*([^*\n]{1,400})\*\*/g)) {
    if (match.index > at) found.push({ kind: "text", text: text.slice(at, match.index) });
    found.push(match[1] !== undefined ? { kind: "code", text: match[1] } : { kind: "strong", text: match[2]! });
    at = match.index + match[0].length;
  }
  if (at < text.length) found.push({ kind: "text", text: text.slice(at) });
  return found;
}
