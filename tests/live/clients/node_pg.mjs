// What programs on node's `pg` do, printed so that two runs can be compared. Where to connect: libpq's environment.
import pg from 'pg';
const settings = { host: process.env.PGHOST, port: +process.env.PGPORT, user: process.env.PGUSER, database: process.env.PGDATABASE, options: process.env.PGOPTIONS };
const client = new pg.Client(settings);
const notices = [];
client.on('notice', (n) => notices.push([n.severity, n.message]));
await client.connect();
const log = [];
const run = async (...a) => {
  try { const r = await client.query(...a); log.push(Array.isArray(r) ? r.map((x) => [x.command, x.rowCount, x.rows]) : [r.command, r.rowCount, r.rows, r.fields.map((f) => [f.name, f.dataTypeID])]); }
  catch (e) { log.push([e.code, e.message, e.position, e.severity]); }
};
await run('drop table if exists njs');
await run('create table njs(i int primary key, v text)');
await run('insert into njs values($1,$2) returning *', [1, 'a']);
await run('insert into njs values($1,$2)', [1, 'a']);
await run({ name: 'ins', text: 'insert into njs values($1,$2)', values: [2, 'b'] });
await run({ name: 'ins', text: 'insert into njs values($1,$2)', values: [3, 'b'] });
await run({ name: 'ins', text: 'insert into njs values($1,$2)', values: [3, 'b'] });
await run('select * from njs where i=$1', [2]);
await run('begin'); await run('select 1'); await run('update njs set v=$1', ['z']); await run('select bogus'); await run('select 1'); await run('rollback');
await run('begin isolation level repeatable read'); await run('insert into njs values($1,$2)', [4, 'd']); await run('commit');
await run('select * from njs order by i'); await run('select * from njs where i = 1; insert into njs values(9); select 2');
await run('select nope($1)', [1]); await run('insert into njs values($1', [1]); await run(''); await run('do $$ begin raise notice \'hi\'; end $$');
await run({ text: 'select i, v from njs order by i', rowMode: 'array' });
await run('listen njs');
const heard = new Promise((done) => client.on('notification', (m) => done([m.channel, m.payload, m.processId === client.processID])));
await run('notify njs, \'hey\''); log.push(await heard);
const pool = new pg.Pool({ ...settings, max: 4 });
log.push((await Promise.all([...Array(20).keys()].map((i) => pool.query('insert into njs values($1) returning i', [100 + i])))).map((r) => r.rows[0].i).sort());
await pool.end();
await run('drop table njs'); log.push(notices);
await client.end();
for (const line of log) console.log(JSON.stringify(line));
