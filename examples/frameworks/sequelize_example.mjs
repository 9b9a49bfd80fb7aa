// Sequelize: one wrapper of sequelize.transaction declares scope and term. Models and queries do not change.
import {DataTypes, Sequelize} from "sequelize";

// Every transaction runs under `term`, which is bound here, when the work begins.
function declare(sequelize, scope, term) {
  const begin = sequelize.transaction.bind(sequelize);
  const first = transaction => sequelize.query("SELECT set_config('termgate.scope', $1, true), set_config('termgate.term', $2, true)",
                                               {bind: [scope, String(term)], transaction});
  sequelize.transaction = async (...given) => {
    const work = typeof given.at(-1) === "function" ? given.pop() : null;
    if (work) return begin(...given, async transaction => { await first(transaction); return work(transaction); });
    const transaction = await begin(...given);
    try {
      await first(transaction);
    } catch (error) {
      await transaction.rollback();
      throw error;
    }
    return transaction;
  };
}

// A new leader's first act, in a transaction of its own: without BEGIN each statement is one.
function raiseFence(sequelize, scope, term) {
  return sequelize.query("SELECT termgate.check_term($1, $2)", {bind: [scope, String(term)]});
}

const sequelize = new Sequelize(process.env.EXAMPLE_URL, {logging: false});
const Account = sequelize.define("Account", {balance: DataTypes.BIGINT}, {tableName: "accounts", timestamps: false});
const {TERMGATE_SCOPE: scope, TERMGATE_TERM: term, EXAMPLE_WON: won} = process.env;
if (term) declare(sequelize, scope, term);
try {
  if (won) await raiseFence(sequelize, scope, term);
  await sequelize.transaction(async transaction => { await Account.decrement({balance: 30}, {where: {id: 42}, transaction}); });
  console.log("written");
} catch (error) {
  console.log("refused", error.original?.code ?? error);
  process.exitCode = 3;
}
await sequelize.close();
