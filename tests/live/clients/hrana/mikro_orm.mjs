// MikroORM with its libSQL driver: schema, unit of work, transactions.
import { EntitySchema } from '@mikro-orm/core';
import { MikroORM } from '@mikro-orm/libsql';
import { authToken, local, path, say, url } from './shared.mjs';

class User { }
class Post { }
const UserSchema = new EntitySchema({ class: User, properties: { id: { type: 'number', primary: true }, name: { type: 'string', unique: true }, age: { type: 'number', nullable: true }, score: { type: 'double', nullable: true }, raw: { type: 'blob', nullable: true }, posts: { kind: '1:m', entity: () => Post, mappedBy: 'user' } } });
const PostSchema = new EntitySchema({ class: Post, properties: { id: { type: 'number', primary: true }, title: { type: 'string' }, user: { kind: 'm:1', entity: () => User, deleteRule: 'cascade' } } });
let orm;
await say('init', () => MikroORM.init({ dbName: local ? path : url, password: local ? undefined : authToken ?? '', entities: [UserSchema, PostSchema], ignoreUndefinedInQuery: true, debug: false }).then((made) => { orm = made; return 1; }));
await say('schema', () => orm.schema.createSchema().then(() => 1));
const em = () => orm.em.fork();
await say('persist', async () => { const m = em(); const u = m.create(User, { name: 'ann', age: 30, score: 0.5, raw: Buffer.from([1, 255]) }); m.create(Post, { title: 'p1', user: u }); m.create(Post, { title: 'p2', user: u }); m.create(User, { name: 'bob' }); await m.flush(); return u.id; });
await say('find', () => em().find(User, {}, { orderBy: { id: 1 } }).then((all) => all.map((u) => [u.id, u.name, u.age, u.score, u.raw])));
await say('populate', () => em().findOneOrFail(User, { name: 'ann' }, { populate: ['posts'] }).then((u) => u.posts.getItems().map((p) => p.title).sort()));
await say('update', async () => { const m = em(); const u = await m.findOneOrFail(User, 1); u.age = 31; await m.flush(); return (await em().findOneOrFail(User, 1)).age; });
await say('native', () => em().nativeUpdate(User, { name: 'bob' }, { age: 7 }));
await say('unique', async () => { const m = em(); m.create(User, { name: 'ann' }); await m.flush().catch((e) => { throw new Error(/UNIQUE constraint failed: [\w.]+/.exec(e.message)?.[0] ?? e.message); }); });
await say('transaction', () => em().transactional(async (m) => { m.create(User, { name: 'dee' }); await m.flush(); return m.count(User); }));
await say('rollback', () => em().transactional(async (m) => { m.create(User, { name: 'gone' }); await m.flush(); throw new Error('out'); }));
await say('nested', () => em().transactional(async (m) => { await m.transactional(async (n) => { n.create(User, { name: 'lost' }); await n.flush(); throw new Error('in'); }).catch(() => 0); return m.count(User); }));
await say('raw', () => em().getConnection().execute('SELECT name FROM user WHERE id = ?', [2]));
await say('update schema', () => orm.schema.getUpdateSchemaSQL().then((text) => text.includes('termgate') ? 'Termgate' : text.length));
await orm.close();
