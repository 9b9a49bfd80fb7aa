// TypeORM with npm's libsql in the place of better-sqlite3: schema, repository, transactions.
import 'reflect-metadata';
import Database from 'libsql';
import { DataSource, EntitySchema } from 'typeorm';
import { authToken, local, path, say, url } from './shared.mjs';

const User = new EntitySchema({ name: 'User', columns: { id: { type: Number, primary: true, generated: true }, name: { type: String, unique: true }, age: { type: Number, nullable: true }, score: { type: 'real', nullable: true }, raw: { type: 'blob', nullable: true } }, relations: { posts: { type: 'one-to-many', target: 'Post', inverseSide: 'user' } } });
const Post = new EntitySchema({ name: 'Post', columns: { id: { type: Number, primary: true, generated: true }, title: { type: String } }, relations: { user: { type: 'many-to-one', target: 'User', inverseSide: 'posts', onDelete: 'CASCADE' } } });
// It hands options of its own to the driver, and no token; and it calls it without `new`.
function Driver(name, options) {
  return new Database(name, local ? options : { ...options, authToken: authToken ?? '' });
}
const source = new DataSource({ type: 'better-sqlite3', driver: Driver, database: local ? path : url, entities: [User, Post], synchronize: false });
await say('initialize', () => source.initialize().then(() => 1));
await say('synchronize', () => source.synchronize().then(() => 1));
const users = source.getRepository('User'), posts = source.getRepository('Post');
await say('save', () => users.save({ name: 'ann', age: 30, score: 0.5, raw: Buffer.from([1, 255]) }));
await say('save two', () => users.save([{ name: 'bob' }, { name: 'cy', age: 4 }]).then((all) => all.map((one) => one.id)));
await say('posts', () => posts.save([1, 2].map((n) => ({ title: `p${n}`, user: { id: 1 } }))).then((all) => all.map((one) => one.id)));
await say('find', () => users.find({ order: { id: 'ASC' } }));
await say('relations', () => users.findOne({ where: { id: 1 }, relations: { posts: true } }));
await say('update', () => users.update({ id: 1 }, { age: 31 }).then((r) => r.affected));
await say('unique', () => users.insert({ name: 'ann' }).catch((e) => { throw new Error(/UNIQUE constraint failed: [\w.]+/.exec(e.message)?.[0] ?? e.message); }));
await say('transaction', () => source.transaction(async (m) => { await m.save('User', { name: 'dee' }); return m.count('User'); }));
await say('rollback', () => source.transaction(async (m) => { await m.save('User', { name: 'gone' }); throw new Error('out'); }));
await say('nested', () => source.transaction(async (m) => { await m.transaction(async (n) => { await n.save('User', { name: 'lost' }); throw new Error('in'); }).catch(() => 0); return m.count('User'); }));
await say('raw', () => source.query('SELECT name FROM user WHERE id = ?', [2]));
await say('destroy', () => source.destroy().then(() => 1));
