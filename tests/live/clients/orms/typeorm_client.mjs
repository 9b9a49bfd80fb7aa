// TypeORM: synchronize, CRUD, the query builder. Printed so that two runs can be compared; where to connect: libpq's environment.
import 'reflect-metadata';
import typeorm from 'typeorm';
const { DataSource, EntitySchema, In, Like, MoreThan, Between } = typeorm;
const say = async (what, act) => {
  try { console.log(what, '=', JSON.stringify(await act())); } catch (error) { console.log(what, '!', error.code ?? error.name, error.driverError?.constraint ?? '', error.message.split('\n')[0]); }
};
const User = new EntitySchema({ name: 'ty_user', columns: {
  id: { type: 'int', primary: true, generated: true }, name: { type: 'varchar', length: 30, unique: true }, age: { type: 'int', nullable: true }, balance: { type: 'numeric', precision: 10, scale: 2, default: 0 },
  active: { type: 'boolean', default: true }, born: { type: 'date', nullable: true }, last: { type: 'timestamptz', nullable: true }, data: { type: 'jsonb', nullable: true }, tags: { type: 'text', array: true, nullable: true }, score: { type: 'float8', nullable: true } },
  relations: { posts: { type: 'one-to-many', target: 'ty_post', inverseSide: 'user' } }, indices: [{ columns: ['age', 'name'] }] });
const columns = { id: { type: 'bigint', primary: true, generated: true }, title: { type: 'varchar' }, size: { type: 'smallint', default: 1 } };
const Post = (more = {}) => new EntitySchema({ name: 'ty_post', columns: { ...columns, ...more }, relations: { user: { type: 'many-to-one', target: 'ty_user', inverseSide: 'posts', onDelete: 'CASCADE', nullable: false } }, checks: [{ name: 'small', expression: '"size" < 100' }] });
const source = (entities) => new DataSource({ type: 'postgres', host: process.env.PGHOST, port: +process.env.PGPORT, username: process.env.PGUSER, database: process.env.PGDATABASE, entities, extra: { options: process.env.PGOPTIONS }, installExtensions: false });
let db = source([User, Post()]);
await say('connect', () => db.initialize().then(() => 1));
await say('synchronize', () => db.synchronize().then(() => 1));
await say('again', () => db.synchronize().then(() => 1));
let users = db.getRepository('ty_user'), posts = db.getRepository('ty_post');
await say('save', () => users.save({ name: 'ann', age: 30, balance: '10.50', born: '1970-01-02', last: new Date(Date.UTC(2024, 1, 3)), data: { k: 'v', n: [1, null] }, tags: ['a', 'b c'], score: 0.1 }));
await say('save more', () => users.save([{ name: 'bob' }, { name: 'cy', age: 5, active: false }]).then((all) => all.map((u) => [u.id, u.balance, u.active])));
await say('insert', () => users.insert([{ name: 'dee', age: 9 }, { name: 'eve' }]).then((r) => r.identifiers));
await say('posts', () => posts.save([1, 2, 3].map((n) => ({ title: `p${n}`, size: n, user: { id: n < 3 ? 1 : 2 } }))).then((all) => all.map((p) => p.id)));
await say('find', () => users.find({ order: { id: 'ASC' } }));
await say('where', () => users.find({ where: [{ age: MoreThan(6) }, { name: Like('c%') }], order: { name: 'ASC' }, select: { name: true } }));
await say('in', () => users.countBy({ id: In([1, 2, 77]) }));
await say('between', () => users.findBy({ age: Between(4, 10) }).then((all) => all.map((u) => u.name).sort()));
await say('relations', () => users.find({ relations: { posts: true }, order: { id: 'ASC', posts: { id: 'DESC' } }, take: 2 }).then((all) => all.map((u) => [u.name, u.posts.map((p) => p.title)])));
await say('builder', () => users.createQueryBuilder('u').leftJoin('u.posts', 'p').select('u.name', 'name').addSelect('COUNT(p.id)', 'n').addSelect('SUM(p.size)', 's').groupBy('u.id').orderBy('u.id').getRawMany());
await say('sum', async () => [await posts.sum('size'), await posts.average('size'), await users.maximum('age'), await users.minimum('age')]);
await say('json', () => users.createQueryBuilder('u').where("u.data->>'k' = :k", { k: 'v' }).getMany().then((all) => all.map((u) => u.name)));
await say('array', () => users.createQueryBuilder('u').where(':t = ANY(u.tags)', { t: 'a' }).getCount());
await say('findAndCount', () => posts.findAndCount({ take: 1, skip: 1, order: { id: 'ASC' } }));
await say('update', () => users.update({ name: 'bob' }, { balance: () => 'balance + 1.25' }).then((r) => r.affected));
await say('increment', () => users.increment({ id: 1 }, 'age', 2).then(() => users.findOneBy({ id: 1 })).then((u) => [u.age, u.balance]));
await say('upsert', () => users.upsert([{ name: 'ann', age: 50 }, { name: 'fay', age: 6 }], ['name']).then(() => users.count()));
await say('unique', () => users.insert({ name: 'ann' }));
await say('check', () => posts.insert({ title: 'x', size: 100, user: { id: 1 } }));
await say('foreign', () => posts.insert({ title: 'x', user: { id: 99 } }));
await say('null', () => posts.insert({ title: 'x' }));
await say('transaction', () => db.transaction(async (t) => { await t.save('ty_user', { name: 'gone' }); throw new Error('out'); }));
await say('rolled back', () => users.countBy({ name: 'gone' }));
await say('lock', () => db.transaction((t) => t.findOne('ty_user', { where: { id: 1 }, lock: { mode: 'pessimistic_write' } })).then((u) => u.name));
await say('delete', () => users.delete({ id: 1 }).then(async (r) => [r.affected, await posts.count()]));
await say('columns', async () => { const q = db.createQueryRunner(); const t = await q.getTable('ty_post'); await q.release(); return [t.columns.map((c) => [c.name, c.type, c.isNullable, c.isGenerated, c.default]), t.foreignKeys.length, t.checks.map((c) => c.name), t.indices.length]; });
await say('end', () => db.destroy());
db = source([User, Post({ note: { type: 'text', nullable: true }, size: { type: 'int', default: 2 } })]);
await say('change', () => db.initialize().then(() => db.synchronize()).then(() => 1));
posts = db.getRepository('ty_post');
await say('after it', () => posts.save({ title: 'n', note: 'x', user: { id: 2 } }).then((p) => [p.size, p.note]));
await say('drop', () => db.dropDatabase().then(() => 1));
await say('end', () => db.destroy());
