// pg, without a framework: one function begins a transaction, declares scope and term, and ends it. Statements do not change.
import pg from "pg";

// Runs `work` in a transaction under `term`, which is bound here, when the work begins.
async function transaction(pool, scope, term, work) {
  const client = await pool.connect();
  try {
    await client.query("BEGIN");
    if (term) await client.query("SELECT set_config('termgate.scope', $1, true), set_config('termgate.term', $2, true)", [scope, String(term)]);
    const result = await work(client);
    await client.query("COMMIT");
    return result;
  } catch (error) {
    await client.query("ROLLBACK").catch(() => {});
    throw error;
  } finally {
    client.release();
  }
}

// A new leader's first act, in a transaction of its own: without BEGIN each statement is one.
function raiseFence(pool, scope, term) {
  return pool.query("SELECT termgate.check_term($1, $2)", [scope, String(term)]);
}

const {EXAMPLE_URL: url, TERMGATE_SCOPE: scope, TERMGATE_TERM: term, EXAMPLE_WON: won} = process.env;
const pool = new pg.Pool({connectionString: url});
try {
  if (won) await raiseFence(pool, scope, term);
  await transaction(pool, scope, term, client => client.query("UPDATE accounts SET balance = balance - $1 WHERE id = $2", [30, 42]));
  console.log("written");
} catch (error) {
  console.log("refused", error.code ?? error);
  process.exitCode = 3;
}
await pool.end();
