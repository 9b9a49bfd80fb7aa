// Knex: with @libsql/knex-libsql on a server, with its SQLite dialect on a file.
import Server from '@libsql/knex-libsql';
import knex from 'knex';
import Database from 'libsql';
import { createRequire } from 'node:module';
import { authToken, local, path, say, url } from './shared.mjs';

const File = createRequire(import.meta.url)('knex/lib/dialects/better-sqlite3/index.js');
class OnFile extends File {
  _driver() {
    return Database;
  }
}
const db = knex({ client: local ? OnFile : Server, connection: { filename: local ? path : authToken ? `${url}?authToken=${authToken}` : url }, useNullAsDefault: true, pool: { min: 1, max: 1 } });
await say('create', () => db.schema.createTable('kx_user', (t) => { t.increments('id'); t.string('name', 30).notNullable().unique(); t.integer('age').index(); t.float('score'); t.boolean('active').defaultTo(true); t.binary('raw'); t.json('data'); }).then(() => 1));
await say('child', () => db.schema.createTable('kx_post', (t) => { t.increments('id'); t.integer('user_id').references('id').inTable('kx_user').onDelete('CASCADE'); t.string('title'); }).then(() => 1));
await say('insert', () => db('kx_user').insert({ name: 'ann', age: 30, score: 0.5, raw: Buffer.from([0, 255]), data: '{"a":1}' }).returning(['id', 'name']));
await say('insert unequal', () => db('kx_user').insert([{ name: 'bob' }, { name: 'cy', age: 4 }]).returning('id'));
await say('posts', () => db('kx_post').insert([1, 2, 3].map((n) => ({ user_id: 1, title: `p${n}` }))).returning('id'));
await say('select', () => db('kx_user').select('id', 'name', 'age', 'score', 'raw', 'data').orderBy('id'));
await say('update', () => db('kx_user').where({ id: 1 }).update({ age: 31 }));
await say('upsert', () => db('kx_user').insert({ name: 'ann', age: 50 }).onConflict('name').merge(['age']).returning(['id', 'age']));
await say('transaction', () => db.transaction(async (t) => { await t('kx_user').where('id', 2).update({ age: 5 }); return t('kx_user').where('id', 2).first('age'); }));
await say('rollback', () => db.transaction(async (t) => { await t('kx_user').insert({ name: 'gone' }); throw new Error('out'); }));
await say('savepoint', () => db.transaction(async (t) => { await t.transaction(async (i) => { await i('kx_user').insert({ name: 'lost' }); throw new Error('in'); }).catch(() => 0); return t('kx_user').count({ n: '*' }); }));
await say('unique', () => db('kx_user').insert({ name: 'ann' }).catch((e) => { throw new Error(/UNIQUE constraint failed: [\w.]+/.exec(e.message)?.[0] ?? e.message); }));
await say('foreign key', () => db('kx_post').insert({ user_id: 99 }).catch((e) => { throw new Error(/FOREIGN KEY constraint failed/.exec(e.message)?.[0] ?? e.message); }));
await say('columnInfo', () => db('kx_user').columnInfo());
await say('drop', async () => { for (const t of ['kx_post', 'kx_user']) await db.schema.dropTable(t); return db.schema.hasTable('kx_user'); });
await db.destroy();
