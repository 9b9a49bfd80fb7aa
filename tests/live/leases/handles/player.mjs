// The Node client as the behaviour suite drives it (tests/live/leases/handles_test.py; the protocol is in handles/lab.py).
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const { Termgate } = await import(pathToFileURL(`${process.env.CLIENT}/index.js`));
const pg = createRequire(`${process.env.MODULES}/`)("pg");

const leases = new Map();
const loops = new Map();
const say = (...words) => process.stdout.write(words.map(word => String(word).replace(/[\t\n]/g, " ")).join("\t") + "\n");
const pause = milliseconds => new Promise(resolve => setTimeout(resolve, milliseconds));

async function connect(url) {
  const client = new pg.Client(url);
  client.on("error", () => {});
  await client.connect();
  return client;
}

const client = (url, database) => new Termgate(() => connect(url), { database });

const commands = {
  async hold(name, url, database, scope, ttl, wait, owner, endpoint) {
    let lease;
    try {
      const options = { ttl: Number(ttl), wait: Number(wait), owner: owner || undefined, endpoint: endpoint || undefined };
      lease = await client(url, database).hold(scope, options);
    } catch (error) {
      if (error.name !== "TimeoutError") throw error;
      return say(name, "blocked", error.message);
    }
    leases.set(name, lease);
    say(name, "held", lease.term, lease.owner);
    lease.askedToLeave.addEventListener("abort", () => say(name, "asked"));
    if (lease.lost.aborted) say(name, "lost");
    else lease.lost.addEventListener("abort", () => say(name, "lost"));
  },

  async held(name, lease) {
    say(name, leases.get(lease).held());
  },

  async release(name, lease) {
    say(name, "released", await leases.get(lease).release());
  },

  async write(name, lease, url, value, how) {
    const connection = await connect(url);
    try {
      await connection.query("BEGIN");
      await leases.get(lease).declare(connection);
      await connection.query("INSERT INTO written VALUES ($1)", [value]);
      await connection.query("COMMIT");
      if (how === "twice") await connection.query("INSERT INTO written VALUES ($1)", [value]);
    } finally {
      await connection.end();
    }
    say(name, "written");
  },

  async lead(name, url, database, scope, ttl) {
    const loop = { stop: new AbortController(), fails: false };
    loops.set(name, loop);
    const work = async (lease, stop) => {
      say(name, "leading", lease.term);
      while (!stop.aborted) {
        if (loop.fails) throw new Error("the work failed");
        await pause(10);
      }
      say(name, "stopped");
    };
    await client(url, database).lead(scope, work, { ttl: Number(ttl), signal: loop.stop.signal });
    say(name, "done");
  },

  async watch(name, url, database, scope, interval) {
    const stop = new AbortController();
    loops.set(name, { stop });
    try {
      for await (const leader of client(url, database).watch(scope, { interval: Number(interval), signal: stop.signal })) {
        say(name, "now", ...(leader ? [leader.owner, leader.term, leader.endpoint ?? ""] : []));
      }
    } catch (error) {
      if (!stop.signal.aborted) throw error;
    }
    say(name, "done");
  },

  async stop(name, loop) {
    loops.get(loop).stop.abort();
    say(name, "ok");
  },

  async fail(name, loop) {
    loops.get(loop).fails = true;
    say(name, "ok");
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  if (line === "quit") break;
  const [command, name, ...rest] = line.split("\t").map(decodeURIComponent);
  commands[command](name, ...rest).catch(error => say(name, "error", error.code ?? error.name, error.message));
}
// What `await using` does at the end of a block.
await Promise.all([...leases.values()].map(lease => lease[Symbol.asyncDispose]()));
say("player", "gone");
process.exit(0);
