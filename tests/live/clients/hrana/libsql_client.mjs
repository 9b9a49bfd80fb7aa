// @libsql/client: statements, parameters, batches, interactive transactions, values of every kind, errors. Over HTTP, over a WebSocket, or on a file.
import { createClient } from '@libsql/client';
import { authToken, local, say, url } from './shared.mjs';

// The client that opens files shares one connection with its transactions; one call at a time asks for nothing else.
const db = createClient({ url, authToken, intMode: 'bigint' });
const numbers = createClient({ url, authToken });
const rows = (result) => [result.columns, result.rows.map((row) => result.columns.map((_, i) => row[i])), result.rowsAffected, result.lastInsertRowid];
const execute = (sql, args) => db.execute(args === undefined ? sql : { sql, args }).then(rows);

await say('create', () => execute('CREATE TABLE u (id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, age INT, score REAL, raw BLOB, any)'));
await say('create child', () => execute('CREATE TABLE p (id INTEGER PRIMARY KEY, u INTEGER REFERENCES u(id) ON DELETE CASCADE, title TEXT CHECK (length(title) > 0))'));
await say('insert', () => execute("INSERT INTO u (name, age) VALUES ('ann', 30), ('bob', NULL)"));
await say('insert by position', () => execute('INSERT INTO u (name, age, score, raw, any) VALUES (?, ?, ?, ?, ?)', ['cy', 5, 1.5, new Uint8Array([0, 1, 255]), null]));
await say('insert by name', () => execute('INSERT INTO u (name, age, any) VALUES (:n, $a, @y)', { n: 'dee', a: 7n, y: true }));
await say('insert returning', () => execute("INSERT INTO u (name) VALUES ('eve') RETURNING id, name, age"));
await say('too few', () => execute('SELECT ?, ?', [1]));
await say('select', () => execute('SELECT * FROM u ORDER BY id'));
await say('no rows', () => execute('SELECT id, name FROM u WHERE id < 0'));
await say('types', () => execute('SELECT typeof(?), typeof(?), typeof(?), typeof(?), typeof(?), typeof(?)', [1, 1.5, 'x', new Uint8Array([1]), null, 2n]));
await say('large', () => execute('SELECT 9007199254740993, -9223372036854775808, 9223372036854775807, ?', [9223372036854775807n]));
await say('large as number', () => numbers.execute('SELECT 9007199254740993'));
await say('floats', () => execute('SELECT 0.1, 1e300, -1e-300, 42.0, 1.0/3, 123456789.123456789'));
await say('texts', () => execute("SELECT '', 'Ünï\u{1F600}', 'a''b\"c\\d', char(10, 9, 13, 1), 'x' || char(8232)"));
await say('blobs', () => execute("SELECT x'', x'00ff10', zeroblob(3), ?", [new Uint8Array(0)]));
await say('update', () => execute('UPDATE u SET age = age + 1 WHERE age IS NOT NULL'));
await say('upsert', () => execute("INSERT INTO u (name, age) VALUES ('ann', 99) ON CONFLICT (name) DO UPDATE SET age = excluded.age RETURNING id, age"));
await say('or ignore', () => execute("INSERT OR IGNORE INTO u (name) VALUES ('ann')"));
await say('a date as a parameter', () => execute('SELECT ?', [new Date(86400000)]));
await say('unique', () => execute("INSERT INTO u (name) VALUES ('ann')"));
await say('foreign key', () => execute("INSERT INTO p (u, title) VALUES (77, 'x')"));
await say('syntax', () => execute('SELEC 1'));
await say('no table', () => execute('SELECT * FROM nowhere'));
await say('nothing', () => execute(''));
await say('two statements', () => execute('SELECT 1; SELECT 2'));
await say('batch', () => db.batch(["INSERT INTO p (u, title) VALUES (1, 'a')", { sql: 'INSERT INTO p (u, title) VALUES (?, ?)', args: [2, 'b'] }, 'SELECT count(*) FROM p'], 'write').then((all) => all.map(rows)));
await say('batch that fails', () => db.batch(["INSERT INTO p (u, title) VALUES (1, 'gone')", "INSERT INTO p (u, title) VALUES (77, 'x')", "INSERT INTO p (u, title) VALUES (1, 'never')"], 'write'));
await say('after it', () => execute('SELECT title FROM p ORDER BY id'));
await say('an empty batch', () => db.batch([], 'write'));
await say('many in a batch', () => db.batch(Array.from({ length: 200 }, (_, i) => ({ sql: 'INSERT INTO p (u, title) VALUES (1, ?)', args: [`n${i}`] })), 'write').then((all) => [all.length, all[199].rowsAffected]));
await say('migrate', () => db.migrate(['CREATE TABLE m (a)', "INSERT INTO m VALUES ('x')", 'ALTER TABLE m ADD COLUMN b DEFAULT 5']).then((all) => all.length));
await say('multiple', () => db.executeMultiple("CREATE TABLE k (a); INSERT INTO k VALUES (1); INSERT INTO k VALUES (2);"));
await say('multiple that fails', () => db.executeMultiple("INSERT INTO k VALUES (3); INSERT INTO nowhere VALUES (1); INSERT INTO k VALUES (4)"));
await say('what is there', () => execute('SELECT a FROM k ORDER BY a'));
const transaction = async (mode, act) => {
  const t = await db.transaction(mode);
  try {
    return await act(t);
  } finally {
    t.close();
  }
};
await say('commit', () => transaction('write', async (t) => { await t.execute("INSERT INTO m (a) VALUES ('in')"); const seen = rows(await t.execute('SELECT count(*) FROM m')); await t.commit(); return [seen, t.closed]; }));
await say('rollback', () => transaction('write', async (t) => { await t.execute('DELETE FROM m'); const seen = rows(await t.execute('SELECT count(*) FROM m')); await t.rollback(); return [seen, t.closed]; }));
await say('closed', () => transaction('write', async (t) => { await t.execute('DELETE FROM m'); return t.closed; }));
await say('deferred', () => transaction('deferred', async (t) => { const before = rows(await t.execute('SELECT count(*) FROM m')); await t.execute("INSERT INTO m (a) VALUES ('later')"); await t.commit(); return before; }));
await say('read', () => transaction('read', async (t) => { const seen = rows(await t.execute('SELECT count(*) FROM m')); await t.commit(); return seen; }));
await say('batch in a transaction', () => transaction('write', async (t) => { const all = await t.batch(["INSERT INTO m (a) VALUES ('b1')", "INSERT INTO m (a) VALUES ('b2')"]); await t.commit(); return all.map(rows); }));
await say('an error in a transaction', () => transaction('write', async (t) => { await t.execute("INSERT INTO m (a) VALUES ('kept')"); const failed = await t.execute('INSERT INTO nowhere VALUES (1)').catch((e) => e.code); await t.commit(); return failed; }));
await say('after a commit', () => transaction('write', async (t) => { await t.commit(); return t.execute('SELECT 1'); }));
await say('pragmas', () => execute('PRAGMA table_info(u)'));
await say('delete', () => execute('DELETE FROM u WHERE id = 1'));
await say('many rows', () => execute('WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000) SELECT i, i * 2 FROM n').then((r) => [r[1].length, r[1][4999]]));
await say('a large value', () => execute('SELECT length(?), length(?)', ['x'.repeat(2000000), new Uint8Array(1000000)]));
await say('at once', () => Promise.all(Array.from({ length: 20 }, (_, i) => execute(`SELECT ${i}`).then((r) => r[1][0][0]))));
await say('drop', () => db.executeMultiple('DROP TABLE p; DROP TABLE u; DROP TABLE m; DROP TABLE k;'));
db.close();
numbers.close();
await say('closed client', () => execute('SELECT 1'));
