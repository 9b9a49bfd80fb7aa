// Drizzle over @libsql/client: its query builder, transactions with savepoints, batches, its migrator.
import { createClient } from '@libsql/client';
import { asc, count, eq, sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/libsql';
import { migrate } from 'drizzle-orm/libsql/migrator';
import { blob, integer, real, sqliteTable, text } from 'drizzle-orm/sqlite-core';
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { authToken, say, url } from './shared.mjs';

const client = createClient({ url, authToken });
const users = sqliteTable('users', {
  id: integer().primaryKey({ autoIncrement: true }), name: text().notNull().unique(), age: integer(), score: real(), active: integer({ mode: 'boolean' }).default(true),
  at: integer({ mode: 'timestamp_ms' }), data: text({ mode: 'json' }), raw: blob({ mode: 'buffer' }), large: blob({ mode: 'bigint' }),
});
const posts = sqliteTable('posts', { id: integer().primaryKey(), userId: integer().references(() => users.id), title: text() });
const db = drizzle(client, { schema: { users, posts } });

const folder = mkdtempSync(`${tmpdir()}/drizzle-`);
mkdirSync(`${folder}/meta`);
writeFileSync(`${folder}/meta/_journal.json`, JSON.stringify({ version: '7', dialect: 'sqlite', entries: [{ idx: 0, version: '6', when: 1, tag: '0000_one', breakpoints: true }, { idx: 1, version: '6', when: 2, tag: '0001_two', breakpoints: true }] }));
writeFileSync(`${folder}/0000_one.sql`, 'CREATE TABLE users (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, age INTEGER, score REAL, active INTEGER DEFAULT 1, at INTEGER, data TEXT, raw BLOB);\n--> statement-breakpoint\nCREATE TABLE posts (id INTEGER PRIMARY KEY, userId INTEGER REFERENCES users(id), title TEXT);');
writeFileSync(`${folder}/0001_two.sql`, 'ALTER TABLE users ADD large BLOB;');
await say('migrate', () => migrate(db, { migrationsFolder: folder }));
await say('migrate again', () => migrate(db, { migrationsFolder: folder }));
await say('insert', () => db.insert(users).values([{ name: 'ann', age: 30, score: 0.5, at: new Date(5000), data: { a: [1, null] }, raw: Buffer.from([0, 255]), large: 2n ** 60n }, { name: 'bob' }]).returning());
await say('insert run', () => db.insert(users).values({ name: 'cy', active: false }).then((r) => [r.rowsAffected, r.lastInsertRowid]));
await say('posts', () => db.insert(posts).values([1, 2, 3].map((n) => ({ userId: 1, title: `p${n}` }))).returning({ id: posts.id }));
await say('select', () => db.select().from(users).orderBy(asc(users.id)));
await say('join', () => db.select({ name: users.name, n: count(posts.id) }).from(users).leftJoin(posts, eq(posts.userId, users.id)).groupBy(users.id).orderBy(users.id));
await say('upsert', () => db.insert(users).values({ name: 'ann', age: 9 }).onConflictDoUpdate({ target: users.name, set: { age: 9 } }).returning({ id: users.id, age: users.age }));
await say('prepared', async () => { const one = db.select().from(users).where(eq(users.id, sql.placeholder('id'))).prepare(); return [await one.get({ id: 1 }), await one.all({ id: 99 })].map((r) => r?.name ?? r); });
await say('unique', () => db.insert(users).values({ name: 'ann' }).catch((e) => { throw e.cause ?? e; }));
await say('foreign key', () => db.insert(posts).values({ userId: 99 }).catch((e) => { throw e.cause ?? e; }));
await say('transaction', () => db.transaction(async (t) => { await t.insert(users).values({ name: 'dee' }); return t.select({ n: count() }).from(users); }));
await say('rollback', () => db.transaction(async (t) => { await t.insert(users).values({ name: 'gone' }); t.rollback(); }));
await say('savepoint', () => db.transaction(async (t) => { await t.insert(users).values({ name: 'kept' }); await t.transaction(async (s) => { await s.insert(users).values({ name: 'undone' }); s.rollback(); }).catch(() => 0); await t.transaction(async (s) => { await s.insert(users).values({ name: 'inner' }); }); }));
await say('after', () => db.select({ name: users.name }).from(users).orderBy(asc(users.name)));
await say('batch', () => db.batch([db.insert(posts).values({ userId: 2, title: 'x' }), db.select({ n: count() }).from(posts)]).then((all) => all[1]));
await say('batch that fails', () => db.batch([db.insert(posts).values({ userId: 2, title: 'gone' }), db.insert(posts).values({ userId: 99 })]).catch((e) => { throw e.cause ?? e; }));
client.close();
