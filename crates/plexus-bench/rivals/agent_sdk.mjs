// @anthropic-ai/claude-agent-sdk with the simulated child: events a second, milliseconds for each permission through its callback, and when
// each of some texts came.
//
// Arguments: the simulator, a directory to work in, events, bytes of each, permission requests, texts. Prints one JSON object.

import { query } from "@anthropic-ai/claude-agent-sdk";

const [simulator, folder, ...numbers] = process.argv.slice(2);
const [events, size, asks, marks] = numbers.map(Number);
const seen = {};

// The prompts go in one by one: each waits until the turn before it has ended.
const waiting = [];
let wake = () => {};
async function* prompts() {
  for (;;) {
    while (waiting.length === 0) await new Promise((resolve) => (wake = resolve));
    const content = waiting.shift();
    if (content === null) return;
    yield { type: "user", message: { role: "user", content }, parent_tool_use_id: null, session_id: "" };
  }
}

const conversation = query({
  prompt: prompts(),
  options: {
    pathToClaudeCodeExecutable: simulator,
    cwd: folder,
    canUseTool: async (_tool, input) => ({ behavior: "allow", updatedInput: input }),
  },
});

/** Plays one prompt in the warm child; returns how long it took in ms and how many messages of the model came. */
async function play(prompt) {
  const started = performance.now();
  waiting.push(prompt);
  wake();
  let said = 0;
  for (;;) {
    const { value, done } = await conversation.next();
    if (done) throw new Error("the child ended without a result");
    if (value.type === "assistant") {
      said += 1;
      const text = value.message.content[0]?.text ?? "";
      if (text.startsWith("mark-")) seen[text] = performance.timeOrigin + performance.now();
    }
    if (value.type === "result") return [performance.now() - started, said];
  }
}

await play("sim:\nsay ready");
const [took, said] = await play(`sim:\nburst ${events} ${size}`);
if (said !== events) throw new Error(`${said} messages of ${events}`);
const ask = 'tool Write {"file_path":"sdk.txt","content":"x"}\n';
const [asked] = await play("sim:\n" + ask.repeat(asks));
const says = Array.from({ length: marks }, (_, mark) => `sleep 12\nsay mark-${mark}\n`);
await play("sim:\nsleep 200\n" + says.join(""));
waiting.push(null);
wake();
console.log(JSON.stringify({ events_per_s: (said / took) * 1e3, ask_ms: asked / asks, seen }));
process.exit(0);
