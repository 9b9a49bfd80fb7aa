// Sequelize: over @libsql/sqlite3 on a server; on a file over the same calls, which npm's libsql answers.
import remote from '@libsql/sqlite3';
import Native from 'libsql';
import { DataTypes, Op, Sequelize } from 'sequelize';
import { authToken, local, path, say, url } from './shared.mjs';

// As much of the package sqlite3 as Sequelize calls.
class Database {
  constructor(name, mode, done) {
    this.db = new Native(name.replace(/^file:/, ''));
    setImmediate(() => (done ?? mode)(null));
  }
  call(context, sql, values, done, act) {
    let error = null, rows;
    try {
      const statement = this.db.prepare(sql);
      const bound = (value) => (typeof value === 'boolean' ? Number(value) : value);
      const named = Object.entries(values ?? {}).map(([name, value]) => [name.replace(/^[$:@]/, ''), bound(value)]);
      const given = Array.isArray(values) ? values.map(bound) : named.length ? [Object.fromEntries(named)] : [];
      rows = act(statement, given, context);
    } catch (failed) {
      error = failed;
    }
    setImmediate(() => done.call(context, error, rows));
    return this;
  }
  run(sql, values, done) {
    if (typeof values === 'function') [values, done] = [[], values];
    return this.call({}, sql, values, done ?? (() => 0), (statement, given, context) => { const ran = statement.run(...given); context.lastID = Number(ran.lastInsertRowid); context.changes = ran.changes; });
  }
  all(sql, values, done) {
    if (typeof values === 'function') [values, done] = [[], values];
    return this.call({}, sql, values, done, (statement, given) => { if (statement.reader === false) { statement.run(...given); return []; } return statement.all(...given); });
  }
  exec(sql, done) { let error = null; try { this.db.exec(sql); } catch (failed) { error = failed; } setImmediate(() => done?.(error)); return this; }
  serialize(act) { act?.(); }
  close(done) { this.db.close(); setImmediate(() => done?.(null)); }
}
// The package's rows cannot be written to, and Sequelize writes into those of PRAGMA INDEX_LIST (sync, on every SQLite that has an index).
class Remote extends remote.Database {
  all(sql, values, done) {
    if (typeof values === 'function') [values, done] = [[], values];
    return super.all(sql, values, function (error, rows) { done.call(this, error, rows?.map((row) => ({ ...row }))); });
  }
}
const file = { Database, OPEN_READWRITE: 2, OPEN_CREATE: 4, OPEN_FULLMUTEX: 0x10000 };
const where = local ? path : authToken ? `${url}?authToken=${authToken}` : url;
const db = new Sequelize({ dialect: 'sqlite', dialectModule: local ? file : { ...remote, Database: Remote }, storage: where, logging: false });
const User = db.define('User', { name: { type: DataTypes.STRING, allowNull: false, unique: true }, age: DataTypes.INTEGER, score: DataTypes.DOUBLE, active: { type: DataTypes.BOOLEAN, defaultValue: true }, data: DataTypes.JSON, raw: DataTypes.BLOB }, { timestamps: false });
const Post = db.define('Post', { title: DataTypes.STRING }, { timestamps: false });
User.hasMany(Post, { foreignKey: 'userId', onDelete: 'CASCADE' });
Post.belongsTo(User, { foreignKey: 'userId' });
const shown = (all) => all.map((one) => one.get({ plain: true }));
const fails = (act) => act().catch((e) => { throw new Error(`${e.name} ${e.errors?.map((one) => one.path) ?? ''}`); });
await say('sync', () => db.sync().then(() => 1));
await say('create', () => User.create({ name: 'ann', age: 30, score: 0.5, data: { a: [1] }, raw: Buffer.from([1, 2]) }).then((u) => [u.id, u.active]));
await say('bulk', () => User.bulkCreate([{ name: 'bob' }, { name: 'cy', age: 5 }]).then((all) => all.length));
await say('posts', () => Post.bulkCreate([1, 2, 3].map((n) => ({ title: `p${n}`, userId: 1 }))).then((all) => all.length));
await say('find', () => User.findAll({ order: ['id'] }).then(shown));
await say('where', () => User.findAll({ where: { [Op.or]: [{ age: { [Op.gt]: 10 } }, { age: null }] }, order: ['id'], attributes: ['name'] }).then(shown));
await say('include', () => User.findOne({ where: { name: 'ann' }, include: [{ model: Post, attributes: ['title'] }], attributes: ['name'], order: [[Post, 'id', 'ASC']] }).then((u) => u.get({ plain: true })));
await say('update', () => User.update({ age: 31 }, { where: { id: 1 } }));
await say('raw', () => db.query('SELECT name FROM Users WHERE id = $id', { bind: { id: 2 }, type: 'SELECT' }));
await say('unique', () => fails(() => User.create({ name: 'ann' })));
await say('foreign key', () => fails(() => Post.create({ title: 'x', userId: 99 })));
await say('transaction', () => db.transaction(async (transaction) => { await User.create({ name: 'dee' }, { transaction }); return User.count({ transaction }); }));
await say('rollback', () => db.transaction(async (transaction) => { await User.create({ name: 'gone' }, { transaction }); throw new Error('out'); }));
await say('describe', () => db.getQueryInterface().describeTable('Users').then((all) => Object.keys(all)));
await db.close();
