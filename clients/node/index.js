// Hold a lease of Termgate, and write under its term.
//
//   const leases = new Termgate(async () => { const client = new pg.Client(URL); await client.connect(); return client; });
//   await using lease = await leases.hold("billing", { ttl: 10_000, wait: 30_000 });   // or: try { … } finally { await lease.release(); }
//   while (!lease.lost.aborted) {
//     await client.query("BEGIN");
//     await lease.declare(client);                                                     // TG001: another leads by now
//     await client.query("UPDATE accounts SET balance = balance - 30 WHERE id = 42");
//     await client.query("COMMIT");
//   }
//
// The lease is renewed in the background. `lost` is aborted a margin (a fifth of the TTL) before the lease can be another's, counted from
// the moment when the last renewal that succeeded was sent, on a clock that never steps. A program that blocks its event loop gets no
// signal; held() reads the clock. What was written too late is refused by the database. `askedToLeave` is aborted if somebody wants it.
// `watch` tells others who leads.
import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { STATEMENTS } from "./statements.js";

Symbol.asyncDispose ??= Symbol.for("Symbol.asyncDispose");

const clock = () => performance.now();
const between = (low, high) => low + (high - low) * Math.random();

/** Resolves after so many milliseconds, or when the signal is aborted. */
const pause = (milliseconds, signal) => sleep(Math.max(milliseconds, 0), undefined, { signal }).catch(() => {});

/** A promise's outcome, or a TimeoutError after so many milliseconds. */
async function within(milliseconds, promise, scope) {
  const answered = new AbortController();
  const late = pause(milliseconds, answered.signal).then(() => {
    throw new DOMException(`the database did not answer for the lease of scope "${scope}"`, "TimeoutError");
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    answered.abort();
  }
}

/** A bigint of the database, which drivers read as text. A Number has no room for every term. */
function whole(value) {
  if (typeof value === "number" && !Number.isSafeInteger(value)) {
    throw new RangeError(`the driver read the number ${value} without its last digits: let it read bigint as text`);
  }
  return BigInt(value);
}

/** The first row of a call, undefined where there is none. A client of pg has query(); mssql makes a request(). */
async function rowOf(connection, text, values) {
  if (typeof connection.request === "function") {
    const request = connection.request();
    values.forEach((value, at) => request.input(`p${at + 1}`, typeof value === "bigint" ? String(value) : value));
    return (await request.query(text.replace(/\$(\d)/g, "@p$1"))).recordset?.[0];
  }
  return (await connection.query(text, values)).rows[0];
}

/** A connection that is opened at its first call, and anew after an error. Calls come one after the other. */
class Line {
  #client;
  #connection;
  #last = Promise.resolve();

  constructor(client) {
    this.#client = client;
  }

  call(name, ...values) {
    const answer = this.#last.then(async () => {
      if (!this.#connection) {
        this.#connection = await this.#client.connect();
        this.#connection.on?.("error", () => {}); // the next call fails, which is enough
      }
      return rowOf(this.#connection, this.#client.texts[name], values);
    });
    this.#last = answer.catch(() => this.#drop());
    return answer;
  }

  /** Who leads, null for nobody, and for how long if it does not renew. It locks nothing. */
  async leader(scope) {
    const row = await this.call("lease", scope);
    const heldFor = row ? Math.max(Number(row.remaining_ms), 0) : 0;
    return { heldFor, leader: heldFor ? { owner: row.owner_id, term: whole(row.term), endpoint: row.endpoint } : null };
  }

  /** After the calls that were made before. One that hangs keeps no program alive. */
  close() {
    this.#connection?.unref?.();
    this.#last.then(() => this.#drop());
  }

  #drop() {
    const gone = this.#connection;
    this.#connection = undefined;
    if (!gone) return;
    const close = async () => (gone.release ? gone.release(true) : gone.end ? gone.end() : gone.close());
    close().catch(() => {});
  }
}

export class Termgate {
  constructor(connect, { database = "postgresql", schema = "termgate", warn = message => process.emitWarning(message, "TermgateWarning") } = {}) {
    const quoted = database === "sqlserver" ? `[${schema.replaceAll("]", "]]")}]` : `"${schema.replaceAll('"', '""')}"`;
    this.texts = Object.fromEntries(Object.entries(STATEMENTS[database]).map(([name, text]) => [name, text.replaceAll("@schema@", () => quoted)]));
    this.connect = connect;
    this.warn = warn;
  }

  async hold(scope, { ttl = 10_000, wait = 30_000, owner, endpoint, signal } = {}) {
    if (!(ttl >= 100 && ttl <= 86_400_000)) throw new RangeError(`TG005 ttl is ${ttl} ms; it must be 100 ms to 1 day`);
    owner ||= `${hostname()}:${process.pid}:${randomBytes(4).toString("hex")}`;
    const line = new Line(this);
    try {
      const { term, sent } = await this.#acquire(line, { scope, ttl, owner, endpoint, signal }, clock() + wait);
      return new Lease(this, line, { scope, owner, term: whole(term), ttl, sent });
    } catch (error) {
      line.close();
      throw error;
    }
  }

  async #acquire(line, { scope, ttl, owner, endpoint, signal }, giveUp) {
    const answer = promise => within(giveUp - clock() + ttl, promise, scope);
    for (let step = 10, heldFor = 0; ; step = Math.min(step * 2, 500)) {
      signal?.throwIfAborted();
      if (heldFor <= 0) {
        let sent = clock();
        const { acquired, term } = await answer(line.call("acquire_lease", scope, owner, ttl, endpoint ?? null, null));
        // A grant that had to wait, for an eviction perhaps, comes late: a renewal counts anew.
        while (acquired && clock() - sent > ttl / 2) {
          sent = clock();
          if ((await answer(line.call("renew_lease", scope, owner, whole(term), ttl))).renewed) continue;
          throw new DOMException(`the lease of scope "${scope}" came too late: a call takes as long as its TTL of ${ttl} ms`, "TimeoutError");
        }
        if (acquired) return { term, sent };
      }
      ({ heldFor } = await answer(line.leader(scope)));
      const left = giveUp - clock();
      if (left <= 0) throw new DOMException(`TG006 the lease of scope "${scope}" is held by another`, "TimeoutError");
      await pause(Math.min(step * between(0.5, 1.5), heldFor + between(1, 10), left), signal);
    }
  }

  async lead(scope, work, { ttl = 10_000, signal, owner, ...rest } = {}) {
    while (!signal?.aborted) {
      let lease;
      try {
        lease = await this.hold(scope, { ...rest, ttl, signal, owner, wait: 3_600_000 });
        owner = lease.owner; // whoever is asked to leave has no part in the next election
      } catch (error) {
        if (signal?.aborted) return undefined;
        if (error instanceof RangeError) throw error;
        this.warn(`no lease of scope "${scope}": ${error.message}`);
        await pause(Math.min(ttl / 3, 1000) * between(0.75, 1), signal);
        continue;
      }
      const stop = new AbortController();
      const forward = () => stop.abort();
      for (const each of [signal, lease.lost, lease.askedToLeave]) each?.addEventListener("abort", forward);
      if (signal?.aborted || lease.lost.aborted) forward();
      try {
        const result = await work(lease, stop.signal);
        if (signal?.aborted || (lease.held() && !lease.askedToLeave.aborted)) return result;
      } catch (error) {
        if (lease.held()) throw error;
        this.warn(`the work under term ${lease.term} of scope "${scope}" ended after its lease: ${error.message}`);
      } finally {
        signal?.removeEventListener("abort", forward);
        await lease[Symbol.asyncDispose]();
      }
    }
    return undefined;
  }

  async *watch(scope, { interval = 1000, signal } = {}) {
    if (!(interval >= 10 && interval <= 86_400_000)) throw new RangeError(`TG005 interval is ${interval} ms; it must be 10 ms to 1 day`);
    const line = new Line(this);
    try {
      for (let last; ; ) {
        signal?.throwIfAborted();
        const { leader, heldFor } = await within(10_000, line.leader(scope), scope);
        if (last === undefined || leader?.owner !== last?.owner || leader?.term !== last?.term) yield leader;
        last = leader;
        await pause(Math.min(interval, leader ? heldFor + 1 : 100), signal);
      }
    } finally {
      line.close();
    }
  }
}

export class Lease {
  #client;
  #line;
  #ttl;
  #until;
  #due;
  #timer;
  #pending;
  #signal = new AbortController();
  #asked = new AbortController();

  constructor(client, line, { scope, owner, term, ttl, sent }) {
    this.#client = client;
    this.#line = line;
    this.#ttl = ttl;
    this.lost = this.#signal.signal;
    this.askedToLeave = this.#asked.signal;
    Object.assign(this, { scope, owner, term });
    this.#renewedFrom(sent);
    this.#look();
  }

  held() {
    return !this.lost.aborted && clock() < this.#until;
  }

  async declare(transaction) {
    await rowOf(transaction, this.#client.texts.check_term, [this.scope, this.term]);
  }

  async release() {
    const held = this.held(); // not after an earlier release, which is a loss too
    this.#lose();
    try {
      for (let attempt = 0; held && clock() < this.#until; ++attempt) {
        try {
          const answer = this.#line.call("release_lease", this.scope, this.owner, this.term);
          const row = await within(this.#until - clock(), answer, this.scope);
          return row.released === true || row.released === 1;
        } catch (error) {
          if (attempt === 4) throw error;
        }
        await pause(10 * 2 ** attempt);
      }
      return false;
    } finally {
      this.#line.close();
    }
  }

  /** `await using` gives the lease back; where that fails, it ends by itself. */
  async [Symbol.asyncDispose]() {
    await this.release().catch(error => this.#client.warn(`the lease of scope "${this.scope}" was not given back: ${error.message}`));
  }

  #lose() {
    clearTimeout(this.#timer);
    this.#signal.abort();
  }

  /** `sent` is the moment from which the database counts at the earliest. The next renewal follows a third of the TTL later, up to a quarter
   * earlier at random: holders elected together do not renew together. */
  #renewedFrom(sent) {
    this.#until = Math.max(this.#until ?? 0, sent + this.#ttl - this.#ttl / 5);
    this.#due = sent + (this.#ttl / 3) * between(0.75, 1);
  }

  /** Sends the renewals and watches the clock, whatever a renewal does. */
  #look() {
    clearTimeout(this.#timer);
    if (this.lost.aborted) return;
    const now = clock();
    if (now >= this.#until) {
      this.#lose();
      this.#line.close();
      return;
    }
    if (this.#pending && now >= this.#pending.sent + this.#ttl / 4) {
      // That connection may be dead, so the next try has another. The answer counts if it still comes.
      this.#line.close();
      this.#line = new Line(this.#client);
      this.#pending = undefined;
      this.#due = now;
    }
    if (!this.#pending && now >= this.#due) this.#renew(now);
    const next = this.#pending ? this.#pending.sent + this.#ttl / 4 : this.#due;
    this.#timer = setTimeout(() => this.#look(), Math.max(Math.ceil(Math.min(next, this.#until) - now), 1));
  }

  async #renew(sent) {
    const mine = (this.#pending = { sent });
    try {
      const row = await this.#line.call("renew_lease", this.scope, this.owner, this.term, this.#ttl);
      if (!row.renewed) this.#lose();
      else if (this.held()) this.#renewedFrom(sent);
      if (row.renewed && row.leave_in_ms != null) this.#asked.abort();
    } catch (error) {
      this.#client.warn(`the lease of scope "${this.scope}" was not renewed: ${error.message}`);
      this.#due = clock() + (this.#ttl / 20) * between(0.75, 1.25);
    }
    if (this.#pending === mine) this.#pending = undefined;
    this.#look();
  }
}
