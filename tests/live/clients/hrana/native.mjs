// npm's libsql, which is the Rust client: with its synchronous calls, as better-sqlite3 has them.
import Database from 'libsql';
import { authToken, local, path, say, url } from './shared.mjs';

const db = local ? new Database(path) : new Database(url, { authToken: authToken ?? '' });
const info = (ran) => [ran.changes, Number(ran.lastInsertRowid)];
await say('create', () => db.exec('CREATE TABLE u (id INTEGER PRIMARY KEY, name TEXT UNIQUE, age INT, score REAL, raw BLOB); CREATE TABLE p (u INT REFERENCES u(id))') ?? 1);
await say('run', () => info(db.prepare('INSERT INTO u (name, age, score, raw) VALUES (?, ?, ?, ?)').run('ann', 30, 1.5, Buffer.from([0, 255]))));
await say('run nulls', () => info(db.prepare('INSERT INTO u (name, age) VALUES (?, ?)').run('bob', null)));
await say('all', () => db.prepare('SELECT * FROM u ORDER BY id').all());
await say('get', () => db.prepare('SELECT name FROM u WHERE id = ?').get(2));
await say('get nothing', () => db.prepare('SELECT name FROM u WHERE id = ?').get(99) ?? 'nothing');
await say('iterate', () => [...db.prepare('SELECT id FROM u ORDER BY id').iterate()]);
await say('raw', () => db.prepare('SELECT id, name FROM u ORDER BY id').raw().all());
await say('columns', () => db.prepare('SELECT id, name FROM u').columns().map((c) => c.name));
await say('large', () => db.prepare('SELECT 9007199254740993 AS n').safeIntegers().get());
await say('returning', () => db.prepare("INSERT INTO u (name) VALUES ('cy') RETURNING id, name").all());
await say('unique', () => db.prepare("INSERT INTO u (name) VALUES ('ann')").run());
await say('no table', () => db.prepare('SELECT * FROM nowhere').all());
await say('transaction', () => db.transaction(() => { db.prepare("INSERT INTO u (name) VALUES ('dee')").run(); return db.prepare('SELECT count(*) AS n FROM u').get(); })());
await say('rollback', () => db.transaction(() => { db.prepare("INSERT INTO u (name) VALUES ('gone')").run(); throw new Error('out'); })());
await say('begin', () => { db.exec('BEGIN'); const within = db.inTransaction; db.exec("INSERT INTO u (name) VALUES ('fay')"); db.exec('COMMIT'); return [within, db.inTransaction]; });
await say('savepoint', () => { db.exec('BEGIN; SAVEPOINT s; DELETE FROM u; ROLLBACK TO s; COMMIT'); return db.prepare('SELECT count(*) AS n FROM u').get(); });
await say('script that fails', () => db.exec("INSERT INTO u (name) VALUES ('s1'); INSERT INTO nowhere VALUES (1); INSERT INTO u (name) VALUES ('s2')"));
await say('after it', () => db.prepare("SELECT name FROM u WHERE name LIKE 's_'").all());
await say('many', () => db.prepare('WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) SELECT i FROM n').all().length);
db.close();
