// Prisma's driver adapter, called as Prisma's engine calls it.
import { PrismaLibSql } from '@prisma/adapter-libsql';
import { authToken, say, url } from './shared.mjs';

const db = await new PrismaLibSql({ url, authToken }).connect();
const query = (on, sql, args = [], argTypes = []) => on.queryRaw({ sql, args, argTypes });
const execute = (on, sql, args = [], argTypes = []) => on.executeRaw({ sql, args, argTypes });
const kinds = (...scalars) => scalars.map((scalarType) => ({ scalarType, arity: 'scalar' }));

await say('script', () => db.executeScript('CREATE TABLE u (id INTEGER PRIMARY KEY, name TEXT UNIQUE, age INT, score REAL, raw BLOB, at DATETIME, ok BOOLEAN, large BIGINT); CREATE TABLE p (id INTEGER PRIMARY KEY, u INT REFERENCES u(id));'));
await say('insert', () => execute(db, 'INSERT INTO u (name, age, score, raw, at, ok, large) VALUES (?, ?, ?, ?, ?, ?, ?)', ['ann', 30, 1.5, new Uint8Array([1, 255]), '2024-01-02T03:04:05.000Z', true, 9007199254740991n], kinds('string', 'int', 'float', 'bytes', 'datetime', 'boolean', 'bigint')));
await say('insert nulls', () => execute(db, 'INSERT INTO u (name, age) VALUES (?, ?)', ['bob', null], kinds('string', 'int')));
await say('query', () => query(db, 'SELECT * FROM u ORDER BY id').then((r) => [r.columnNames, r.columnTypes, r.rows]));
await say('no rows', () => query(db, 'SELECT id FROM u WHERE id < 0').then((r) => [r.columnNames, r.columnTypes, r.rows]));
await say('returning', () => query(db, 'INSERT INTO u (name) VALUES (?) RETURNING id, name', ['cy'], kinds('string')).then((r) => [r.rows, r.lastInsertId]));
await say('unique', () => execute(db, "INSERT INTO u (name) VALUES ('ann')").catch((e) => e.cause));
await say('foreign key', () => execute(db, 'INSERT INTO p (u) VALUES (99)').catch((e) => e.cause));
await say('no table', () => query(db, 'SELECT * FROM nowhere').catch((e) => e.cause));
await say('commit', async () => { const t = await db.startTransaction(); await execute(t, "INSERT INTO u (name) VALUES ('in')"); const seen = await query(t, 'SELECT count(*) FROM u'); await t.commit(); return seen.rows; });
await say('rollback', async () => { const t = await db.startTransaction(); await execute(t, 'DELETE FROM u'); await t.rollback(); return (await query(db, 'SELECT count(*) FROM u')).rows; });
await say('an error within', async () => { const t = await db.startTransaction(); const kind = await execute(t, "INSERT INTO u (name) VALUES ('ann')").catch((e) => e.cause.kind); await execute(t, "INSERT INTO u (name) VALUES ('after')"); await t.commit(); return kind; });
await say('savepoint', async () => { const t = await db.startTransaction(); await execute(t, 'SAVEPOINT s'); await execute(t, 'DELETE FROM u'); await execute(t, 'ROLLBACK TO s'); await t.commit(); return (await query(db, 'SELECT count(*) FROM u')).rows; });
await db.dispose();
