// @tursodatabase/serverless, which knows servers only: what it does is compared with @libsql/client on a file.
import { createClient as onFile } from '@libsql/client';
import { createClient as onServer } from '@tursodatabase/serverless/compat';
import { authToken, local, say, url } from './shared.mjs';

const db = local ? onFile({ url }) : onServer({ url, authToken: authToken ?? '' });
const rows = (result) => [result.columns, result.rows.map((row) => result.columns.map((name) => row[name])), result.rowsAffected];
const execute = (sql, args) => db.execute(args === undefined ? sql : { sql, args }).then(rows);
await say('create', () => execute('CREATE TABLE u (id INTEGER PRIMARY KEY, name TEXT UNIQUE, age INT, score REAL, raw BLOB)'));
await say('insert', () => execute("INSERT INTO u (name, age) VALUES ('ann', 30), ('bob', NULL)"));
await say('by position', () => execute('INSERT INTO u (name, age, score) VALUES (?, ?, ?)', ['cy', 5, 1.5]));
await say('by name', () => execute('INSERT INTO u (name, age) VALUES (:n, :a)', { n: 'dee', a: 7 }));
await say('blob', () => execute('UPDATE u SET raw = ? WHERE id = 1', [new Uint8Array([0, 1, 255])]));
await say('returning', () => execute("INSERT INTO u (name) VALUES ('eve') RETURNING id, name"));
await say('select', () => execute('SELECT id, name, age, score FROM u ORDER BY id'));
await say('blob back', () => execute('SELECT hex(raw) AS h, raw FROM u WHERE id = 1').then((r) => [r[1][0][0], Buffer.from(r[1][0][1]).toString('hex')]));
await say('no rows', () => execute('SELECT id FROM u WHERE id < 0'));
await say('unique', () => execute("INSERT INTO u (name) VALUES ('ann')").catch((e) => { throw new Error(/UNIQUE constraint failed: [\w.]+/.exec(e.message)?.[0] ?? e.message); }));
await say('syntax', () => execute('SELEC 1').catch((e) => { throw new Error(/near "SELEC": syntax error/.exec(e.message)?.[0] ?? e.message); }));
await say('batch', () => db.batch(["INSERT INTO u (name) VALUES ('b1')", "INSERT INTO u (name) VALUES ('b2')"], 'write').then(() => 1));
await say('multiple', () => db.executeMultiple("INSERT INTO u (name) VALUES ('m1'); INSERT INTO u (name) VALUES ('m2')").then(() => 1));
await say('names', () => execute('SELECT name FROM u ORDER BY name'));
await say('many', () => execute('WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) SELECT i FROM n').then((r) => r[1].length));
db.close();
