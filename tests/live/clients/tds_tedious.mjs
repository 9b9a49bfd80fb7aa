// What a program on tedious does, one line for each result: HOST PORT DATABASE USER PASSWORD APPLICATION from the environment.
import tedious from 'tedious';
const { Connection, Request, TYPES, ISOLATION_LEVEL } = tedious;
const env = process.env;

const connection = new Connection({
  server: env.HOST,
  authentication: { type: 'default', options: { userName: env.USERNAME, password: env.PASSWORD } },
  options: { port: Number(env.PORT), database: env.DATABASE, appName: env.APPLICATION, encrypt: false, trustServerCertificate: true, rowCollectionOnRequestCompletion: false, connectTimeout: 60000, requestTimeout: 60000 },
});
const print = (name, value) => console.log(`${name}: ${typeof value === 'string' ? value : JSON.stringify(value)}`);
const shown = (error) => `error ${error.number ?? error.code} line ${error.lineNumber ?? 0} ${error.message}`;

function run(name, text, how = 'execSql', parameters = []) {
  return new Promise((resolve) => {
    const rows = [];
    const request = new Request(text, (error, count) => {
      print(name, error ? shown(error) : `${count} rows ${JSON.stringify(rows)}`);
      resolve(rows);
    });
    request.on('row', (columns) => rows.push(columns.map((column) => (Buffer.isBuffer(column.value) ? column.value.toString('hex') : column.value instanceof Date ? column.value.toISOString() : column.value))));
    request.on('returnValue', (parameter, value) => rows.push(`${parameter}=${value}`));
    for (const [key, type, value, options] of parameters) request.addParameter(key, type, value, options);
    connection[how](request);
  });
}
const step = (name, call) => new Promise((resolve) => call((error) => { print(name, error ? shown(error) : 'done'); resolve(); }));

await new Promise((resolve, reject) => { connection.on('connect', (error) => (error ? reject(error) : resolve())); connection.connect(); });
await run('create', 'CREATE TABLE dbo.tedious_t (id int NOT NULL PRIMARY KEY, name nvarchar(100), amount decimal(12, 2), at datetime2(3), data varbinary(max), note nvarchar(max))', 'execSqlBatch');
const insert = 'INSERT INTO dbo.tedious_t (id, name, amount, at, data, note) VALUES (@id, @name, @amount, @at, @data, @note)';
const row = (id, name, amount, note) => [
  ['id', TYPES.Int, id], ['name', TYPES.NVarChar, name], ['amount', TYPES.Decimal, amount, { precision: 12, scale: 2 }],
  ['at', TYPES.DateTime2, new Date(Date.UTC(2026, 0, 2, 3, 4, 5, 678)), { scale: 3 }], ['data', TYPES.VarBinary, Buffer.from([0, 1, 254, 255])], ['note', TYPES.NVarChar, note],
];
await run('insert', insert, 'execSql', row(1, 'Ünïcødé 漢字', 12.5, 'x'));
await run('insert null', insert, 'execSql', row(2, null, null, null));
await run('insert twice', insert, 'execSql', row(1, 'again', 1, 'x'));
await run('select', 'SELECT id, name, amount, at, data, note FROM dbo.tedious_t WHERE id <= @most ORDER BY id', 'execSql', [['most', TYPES.Int, 10]]);
await run('two results', 'SELECT 1 AS a; SELECT name FROM dbo.tedious_t ORDER BY id', 'execSqlBatch');
await run('error', 'SELECT 1 AS a\n\nSELECT * FROM dbo.no_such_table', 'execSqlBatch');
await run('error behind rows', 'SELECT id FROM dbo.tedious_t ORDER BY id\nINSERT INTO dbo.tedious_t (id) VALUES (1)', 'execSqlBatch');
await run('large in', "UPDATE dbo.tedious_t SET note = @note WHERE id = 2", 'execSql', [['note', TYPES.NVarChar, 'ab'.repeat(60000), { length: Infinity }]]);
await run('large out', 'SELECT DATALENGTH(note), RIGHT(note, 3) FROM dbo.tedious_t WHERE id = 2');

const prepared = new Request('UPDATE dbo.tedious_t SET amount = amount + @by WHERE id = @id', (error) => error && print('prepared', shown(error)));
prepared.addParameter('by', TYPES.Int); prepared.addParameter('id', TYPES.Int);
await new Promise((resolve) => { prepared.on('prepared', resolve); connection.prepare(prepared); });
for (const by of [1, 2, 3]) {
  await new Promise((resolve) => {
    prepared.userCallback = (error, count) => { print(`execute ${by}`, error ? shown(error) : `${count} rows`); resolve(); };
    connection.execute(prepared, { by, id: 1 });
  });
}
await new Promise((resolve) => { prepared.userCallback = () => resolve(); connection.unprepare(prepared); });
await run('after execute', 'SELECT amount FROM dbo.tedious_t WHERE id = 1');

await step('begin', (done) => connection.beginTransaction(done, 'first', ISOLATION_LEVEL.READ_COMMITTED));
await run('in a transaction', 'INSERT INTO dbo.tedious_t (id) VALUES (3)');
await step('save', (done) => connection.saveTransaction(done, 'point'));
await run('behind a savepoint', 'INSERT INTO dbo.tedious_t (id) VALUES (4)');
await step('rollback to it', (done) => connection.rollbackTransaction(done, 'point'));
await step('commit', (done) => connection.commitTransaction(done));
await run('kept', 'SELECT id FROM dbo.tedious_t ORDER BY id');
await step('begin again', (done) => connection.beginTransaction(done));
await run('to be undone', 'DELETE FROM dbo.tedious_t');
await step('rollback', (done) => connection.rollbackTransaction(done));
await run('still there', 'SELECT COUNT(*) FROM dbo.tedious_t');
await run('transaction of a text', 'BEGIN TRANSACTION; INSERT INTO dbo.tedious_t (id) VALUES (5); COMMIT', 'execSqlBatch');

await run('a table for a bulk load', 'CREATE TABLE dbo.tedious_b (id int NOT NULL, name nvarchar(50) NULL)', 'execSqlBatch');
await new Promise((resolve) => {
  const load = connection.newBulkLoad('dbo.tedious_b', { keepNulls: true }, (error, count) => { print('bulk load', error ? shown(error) : `${count} rows`); resolve(); });
  load.addColumn('id', TYPES.Int, { nullable: false }); load.addColumn('name', TYPES.NVarChar, { length: 50, nullable: true });
  connection.execBulkLoad(load, Array.from({ length: 500 }, (_, i) => ({ id: i, name: i % 7 ? `row ${i}` : null })));
});
await run('loaded', 'SELECT COUNT(*), COUNT(name), SUM(id) FROM dbo.tedious_b');
await step('reset', (done) => connection.reset(done));
await run('after the reset', "SELECT @@TRANCOUNT, COUNT(*) FROM dbo.tedious_b");
await run('drop', 'DROP TABLE dbo.tedious_b; DROP TABLE dbo.tedious_t', 'execSqlBatch');
connection.close();
