// TypeORM: one subscriber declares scope and term at the start of every transaction. Entities and queries do not change.
import {DataSource, EntitySchema} from "typeorm";

// Every transaction runs under `term`, which is bound here, when the work begins.
function declare(source, scope, term) {
  source.subscribers.push({
    afterTransactionStart: event =>
        event.queryRunner.query("SELECT set_config('termgate.scope', $1, true), set_config('termgate.term', $2, true)", [scope, String(term)]),
  });
}

// A new leader's first act, in a transaction of its own: without BEGIN each statement is one.
function raiseFence(source, scope, term) {
  return source.query("SELECT termgate.check_term($1, $2)", [scope, String(term)]);
}

const Account = new EntitySchema({name: "Account", tableName: "accounts", columns: {id: {type: "int", primary: true}, balance: {type: "bigint"}}});
const source = await new DataSource({type: "postgres", url: process.env.EXAMPLE_URL, entities: [Account]}).initialize();
const {TERMGATE_SCOPE: scope, TERMGATE_TERM: term, EXAMPLE_WON: won} = process.env;
if (term) declare(source, scope, term);
try {
  if (won) await raiseFence(source, scope, term);
  await source.transaction(async manager => { await manager.decrement(Account, {id: 42}, "balance", 30); });
  console.log("written");
} catch (error) {
  console.log("refused", error.code ?? error);
  process.exitCode = 3;
}
await source.destroy();
