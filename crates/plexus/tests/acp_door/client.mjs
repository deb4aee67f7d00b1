// An editor made of the TypeScript SDK, driven by a test: commands come as JSON lines on stdin, what
// happens goes as JSON lines to stdout. ACP_SDK names the SDK's module; the arguments are the agent.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { Readable, Writable } from "node:stream";

const acp = await import(process.env.ACP_SDK);
const [program, ...words] = process.argv.slice(2);
const agent = spawn(program, words, { stdio: ["pipe", "pipe", "inherit"] });
const say = (message) => process.stdout.write(JSON.stringify(message) + "\n");
const questions = [];

const app = acp
  .client({ name: "test" })
  .onRequest(acp.methods.client.session.requestPermission, ({ params, signal }) =>
    new Promise((answer) => {
      const question = questions.push(answer) - 1;
      signal.addEventListener("abort", () => say({ withdrawn: question }));
      say({ question, ...params });
    }),
  )
  .onNotification(acp.methods.client.session.update, ({ params }) => say({ update: params.update }));
const connection = app.connect(
  acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout)),
);
const { session } = acp.methods.agent;

const commands = {
  initialize: ({ version }) =>
    connection.agent.request(acp.methods.agent.initialize, {
      protocolVersion: version,
      clientCapabilities: {},
      clientInfo: { name: "typescript-sdk", version: "0" },
    }),
  new: ({ cwd }) => connection.agent.request(session.new, { cwd, mcpServers: [] }),
  load: ({ id, cwd }) =>
    connection.agent.request(session.load, { sessionId: id, cwd, mcpServers: [] }),
  prompt: ({ id, text }) =>
    connection.agent.request(session.prompt, {
      sessionId: id,
      prompt: [{ type: "text", text }],
    }),
  cancel: ({ id }) => connection.agent.notify(session.cancel, { sessionId: id }),
  answer: ({ question, option }) =>
    questions[question]({ outcome: { outcome: "selected", optionId: option } }),
};

for await (const line of createInterface({ input: process.stdin })) {
  const { number, command, ...params } = JSON.parse(line);
  Promise.resolve(commands[command](params)).then(
    (result) => say({ number, result: result ?? null }),
    (error) => say({ number, error: { code: error.code ?? null, message: error.message } }),
  );
}
