// Allows a file to be written in DIRECTORY, denies everything else: node supervise.mjs DIRECTORY PROMPT.
import { fromDataDir } from "plexus-sdk/node";

const [directory, prompt] = process.argv.slice(2);
const session = await fromDataDir().create({ name: `sdk-${directory}`, working_dir: directory });
const chat = await session.chat(prompt);
const said = await chat.result({
  onPermission: (asked) => (asked.tool_name === "Write" ? { allow: true } : { allow: false, message: "only write files" }),
});
console.log(said);
