// Kysely with @libsql/kysely-libsql: its builder, transactions, introspection, migrations.
import { LibsqlDialect } from '@libsql/kysely-libsql';
import { Kysely, Migrator, sql } from 'kysely';
import { authToken, say, url } from './shared.mjs';

const db = new Kysely({ dialect: new LibsqlDialect({ url, authToken }) });
await say('create', () => db.schema.createTable('u').addColumn('id', 'integer', (c) => c.primaryKey()).addColumn('name', 'text', (c) => c.notNull().unique()).addColumn('age', 'integer').addColumn('score', 'real').addColumn('raw', 'blob').execute());
await say('child', () => db.schema.createTable('p').addColumn('id', 'integer', (c) => c.primaryKey()).addColumn('u', 'integer', (c) => c.references('u.id').onDelete('cascade')).addColumn('title', 'text').execute());
await say('insert', () => db.insertInto('u').values([{ name: 'ann', age: 30, score: 1.5, raw: Buffer.from([1, 2]) }, { name: 'bob', age: null, score: null, raw: null }]).execute().then((r) => r.map((one) => [one.insertId, one.numInsertedOrUpdatedRows])));
await say('returning', () => db.insertInto('u').values({ name: 'cy' }).returningAll().executeTakeFirst());
await say('posts', () => db.insertInto('p').values([1, 2].map((n) => ({ u: 1, title: `p${n}` }))).returning('id').execute());
await say('select', () => db.selectFrom('u').selectAll().orderBy('id').execute());
await say('join', () => db.selectFrom('u').leftJoin('p', 'p.u', 'u.id').select(({ fn }) => ['u.name', fn.count('p.id').as('n')]).groupBy('u.id').orderBy('u.id').execute());
await say('update', () => db.updateTable('u').set({ age: 31 }).where('id', '=', 1).execute().then((r) => r.map((one) => one.numUpdatedRows)));
await say('upsert', () => db.insertInto('u').values({ name: 'ann', age: 1 }).onConflict((c) => c.column('name').doUpdateSet({ age: 2 })).returning(['id', 'age']).execute());
await say('unique', () => db.insertInto('u').values({ name: 'ann' }).execute());
await say('foreign key', () => db.insertInto('p').values({ u: 99 }).execute());
await say('no table', () => db.selectFrom('nowhere').selectAll().execute());
await say('transaction', () => db.transaction().execute(async (t) => { await t.insertInto('u').values({ name: 'dee' }).execute(); return t.selectFrom('u').select(({ fn }) => fn.countAll().as('n')).executeTakeFirst(); }));
await say('rollback', () => db.transaction().execute(async (t) => { await t.insertInto('u').values({ name: 'gone' }).execute(); throw new Error('out'); }));
await say('names', () => db.selectFrom('u').select('name').orderBy('name').execute());
await say('tables', () => db.introspection.getTables().then((all) => all.filter((t) => ['u', 'p'].includes(t.name)).map((t) => [t.name, t.columns.map((c) => [c.name, c.dataType, c.isNullable, c.isAutoIncrementing])])));
const provider = { getMigrations: async () => ({ one: { up: (k) => k.schema.createTable('m').addColumn('a', 'text').execute(), down: (k) => k.schema.dropTable('m').execute() }, two: { up: (k) => k.schema.alterTable('m').addColumn('b', 'integer').execute(), down: (k) => k.schema.alterTable('m').dropColumn('b').execute() } }) };
const migrator = new Migrator({ db, provider });
await say('migrate', () => migrator.migrateToLatest().then((r) => [r.results?.map((one) => [one.migrationName, one.status]), r.error?.message]));
await say('migrate down', () => migrator.migrateDown().then((r) => [r.results?.map((one) => [one.migrationName, one.status]), r.error?.message]));
await db.destroy();
