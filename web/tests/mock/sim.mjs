// Plays a chat: a script (`sim:` and one step a line) or, for any other prompt, a short answer. The steps are those of `plexus sim`,
// so the same tests run against the real server with its simulator.

import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

export async function play(world, session, chat, prompt) {
  const steps = prompt.startsWith("sim:") ? prompt.slice(4).split("\n").map((line) => line.trim()).filter(Boolean) : ["say Understood. Nothing is to be done."];
  let turns = 0;
  for (const step of steps) {
    if (chat.status !== "running") return;
    const [word] = step.split(" ", 1);
    const rest = step.slice(word.length + 1);
    turns++;
    switch (word) {
      case "say":
        world.emit(session, chat, { type: "content", text: rest });
        break;
      case "slowly": {
        const [pause] = rest.split(" ", 1);
        const text = rest.slice(pause.length + 1);
        world.speak(session, { type: "delta_start" });
        for (const piece of text.match(/\S+\s*/g) ?? []) {
          world.speak(session, { type: "delta", text: piece });
          // A pause ends early when the chat is cancelled, and keeps nobody alive.
          await Promise.race([sleep(Number(pause), null, { ref: false }), new Promise((resolve) => (chat.hanging = resolve))]);
          if (chat.status !== "running") return;
        }
        world.emit(session, chat, { type: "content", text });
        break;
      }
      case "think":
        world.emit(session, chat, { type: "thinking", thinking: rest });
        break;
      case "stderr":
        world.emit(session, chat, { type: "notice", message: rest });
        break;
      case "sleep":
        await sleep(Number(rest));
        break;
      case "burst": {
        const [count, bytes] = rest.split(" ").map(Number);
        for (let i = 0; i < count; i++) world.emit(session, chat, { type: "content", text: `${i} `.padEnd(bytes, "burst of text ") });
        break;
      }
      case "tool":
        await tool(world, session, chat, rest);
        break;
      case "hang":
        await new Promise((resolve) => (chat.hanging = resolve));
        break;
      case "exit":
        world.endChat(session, chat, rest.trim() === "0" ? "complete" : "failed");
        return;
      default:
        world.emit(session, chat, { type: "notice", message: `unknown step: ${word}` });
    }
  }
  world.endChat(session, chat, "complete", { input_tokens: 1_200 * turns, output_tokens: 240 * turns, cost_usd: 0.012 * turns, num_turns: turns });
}

async function tool(world, session, chat, text) {
  const [name] = text.split(" ", 1);
  const input = JSON.parse(text.slice(name.length + 1));
  const id = `toolu_${randomUUID().slice(0, 12)}`;
  world.emit(session, chat, { type: "tool_use", tool_name: name, tool_use_id: id, input });
  const answer = await world.ask(session, chat, name, id, input);
  if (chat.status !== "running") return;
  world.emit(session, chat, {
    type: "tool_result", tool_use_id: id, is_error: !answer.approved,
    output: answer.approved ? `ran ${name}: ${answer.input.command ?? answer.input.file_path ?? answer.input.url ?? "ok"}` : (answer.message ?? "The user doesn't want to proceed with this tool use."),
  });
}
