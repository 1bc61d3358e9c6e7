// A consumer of the package `ws`: node client.cjs URL DEFLATE ITEM... Each message that comes is a line; a line of input ends it.
const WebSocket = require("ws");

const [url, deflate, ...names] = process.argv.slice(2);
const ws = new WebSocket(url, "tr_json2", { perMessageDeflate: deflate === "deflate" });
const send = (message) => ws.send(JSON.stringify(message));
ws.on("open", () => send({ ID: 1, Domain: "Login", Key: { Name: "user", Elements: { ApplicationId: "256" } } }));
ws.on("message", (data) => {
  for (const message of JSON.parse(data.toString())) {
    console.log(JSON.stringify(message));
    if (message.Type === "Ping") send({ Type: "Pong" });
    if (message.Domain === "Login" && message.Type === "Refresh") names.forEach((name, at) => send({ ID: 5 + at, Key: { Name: name } }));
  }
});
ws.on("close", (code) => process.exit(code === 1000 ? 0 : 1));
process.stdin.on("data", () => send({ ID: 1, Type: "Close" }));
