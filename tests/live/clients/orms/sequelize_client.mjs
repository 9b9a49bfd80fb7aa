// Sequelize: sync, CRUD, queries, changes of tables. Printed so that two runs can be compared; where to connect: libpq's environment.
import { Sequelize, DataTypes, Op, QueryTypes } from 'sequelize';
const db = new Sequelize(process.env.PGDATABASE, process.env.PGUSER, '', {
  host: process.env.PGHOST, port: +process.env.PGPORT, dialect: 'postgres', logging: false, timezone: '+00:00',
  dialectOptions: { options: process.env.PGOPTIONS },
});
const say = async (what, act) => {
  try { console.log(what, '=', JSON.stringify(await act(), (k, v) => (k === 'createdAt' || k === 'updatedAt' ? undefined : v))); }
  catch (error) { console.log(what, '!', error.name, error.original?.code ?? '', error.message.split('\n')[0], JSON.stringify(error.fields ?? {})); }
};
const User = db.define('sq_user', {
  name: { type: DataTypes.STRING(30), allowNull: false, unique: true }, age: DataTypes.INTEGER, balance: { type: DataTypes.DECIMAL(10, 2), defaultValue: 0 },
  score: DataTypes.DOUBLE, active: { type: DataTypes.BOOLEAN, defaultValue: true }, born: DataTypes.DATEONLY, last: DataTypes.DATE,
  data: DataTypes.JSONB, tags: DataTypes.ARRAY(DataTypes.TEXT), key: { type: DataTypes.UUID }, raw: DataTypes.BLOB, big: DataTypes.BIGINT,
}, { indexes: [{ fields: ['age', 'name'] }] });
const Post = db.define('sq_post', { title: DataTypes.STRING, size: { type: DataTypes.INTEGER, defaultValue: 1, validate: { min: 0 } } }, { paranoid: true });
User.hasMany(Post, { foreignKey: { name: 'userId', allowNull: false }, onDelete: 'CASCADE' });
Post.belongsTo(User, { foreignKey: 'userId' });
await say('authenticate', () => db.authenticate());
await say('sync', () => db.sync().then(() => 1));
await say('sync again', () => db.sync().then(() => 1));
await say('alter', () => db.sync({ alter: true }).then(() => 1));
const ann = await User.create({ name: 'ann', age: 30, balance: '10.50', score: 0.1, born: '1970-01-02', last: new Date(Date.UTC(2024, 1, 29, 12, 30, 45, 123)), data: { k: 'v', n: 1, list: [1, 'x', null] }, tags: ['a', 'b c'], key: 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', raw: Buffer.from([0, 255]), big: '9007199254740993' });
await say('created', () => ann.toJSON());
await say('typeof id', () => typeof ann.id);
await say('bulk', () => User.bulkCreate([{ name: 'bob', age: 40, balance: 3 }, { name: 'cy', age: 20 }, { name: 'dee' }], { returning: true }).then((all) => all.map((u) => [u.id, u.name, u.balance])));
await say('posts', () => Post.bulkCreate([1, 2, 3, 4].map((n) => ({ title: `p${n}`, size: n, userId: n < 3 ? 1 : 2 }))).then((all) => all.length));
await say('all', () => User.findAll({ order: ['id'], raw: true }));
await say('where', () => User.findAll({ where: { age: { [Op.gt]: 25 }, name: { [Op.iLike]: '%N%' } }, attributes: ['name'], raw: true }));
await say('date', () => User.findAll({ where: { last: { [Op.lte]: new Date(Date.UTC(2024, 2, 1)) } }, attributes: ['name'], raw: true }));
await say('in', () => User.count({ where: { id: [1, 2, 99] } }));
await say('or', () => User.findAll({ where: { [Op.or]: [{ age: null }, { age: { [Op.between]: [15, 25] } }] }, attributes: ['name'], order: ['name'], raw: true }));
await say('json', () => User.findOne({ where: { 'data.k': 'v' }, attributes: ['name'], raw: true }));
await say('json number', () => User.findOne({ where: { data: { n: 1 } }, attributes: ['name'], raw: true }));
await say('json contains', () => User.count({ where: { data: { [Op.contains]: { k: 'v' } } } }));
await say('array', () => User.count({ where: { tags: { [Op.contains]: ['a'] } } }));
await say('overlap', () => User.count({ where: { tags: { [Op.overlap]: ['a', 'z'] } } }));
await say('include', () => User.findAll({ include: Post, order: ['id', [Post, 'id', 'DESC']], limit: 2 }).then((all) => all.map((u) => [u.name, u.sq_posts.map((p) => p.title)])));
await say('inner', () => Post.findAll({ include: { model: User, where: { name: 'bob' } }, order: ['id'] }).then((all) => all.map((p) => [p.title, p.sq_user.name])));
await say('sums', () => Post.findAll({ attributes: ['userId', [db.fn('SUM', db.col('size')), 'total'], [db.fn('COUNT', '*'), 'n'], [db.fn('AVG', db.col('size')), 'mean']], group: 'userId', order: ['userId'], raw: true }));
await say('having', () => Post.findAll({ attributes: ['userId'], group: 'userId', having: db.where(db.fn('COUNT', db.col('id')), '>', 1), order: ['userId'], raw: true }));
await say('aggregate', async () => [await User.sum('balance'), await User.max('age'), await User.min('born'), await User.count()]);
await say('findAndCountAll', () => Post.findAndCountAll({ limit: 2, offset: 1, order: ['id'] }).then((r) => [r.count, r.rows.map((p) => p.title)]));
await say('update', () => User.update({ balance: db.literal('balance * 2') }, { where: { id: [1, 2] }, returning: true }).then((r) => [r[0], r[1].map((u) => u.balance)]));
await say('increment', () => ann.increment({ age: 2, balance: 1.25 }).then(() => ann.reload()).then((u) => [u.age, u.balance]));
await say('save', () => { ann.data = { k: 'w' }; ann.tags = []; return ann.save().then((u) => [u.data, u.tags]); });
await say('upsert', () => User.upsert({ name: 'bob', age: 41 }, { conflictFields: ['name'] }).then((r) => [r[0].id, r[0].age]));
await say('findOrCreate', () => User.findOrCreate({ where: { name: 'eve' }, defaults: { age: 9 } }).then((r) => [r[0].name, r[1]]));
await say('findCreateFind', () => User.findCreateFind({ where: { name: 'eve' } }).then((r) => [r[0].age, r[1]]));
await say('unique', () => User.create({ name: 'ann' }));
await say('null', () => User.build({}).save({ validate: false }));
await say('foreign', () => Post.create({ title: 'x', userId: 999 }));
await say('long', () => User.create({ name: 'x'.repeat(31) }));
await say('paranoid', () => Post.destroy({ where: { id: 1 } }).then(() => Post.count()));
await say('restore', () => Post.restore({ where: { id: 1 } }).then(() => Post.count()));
await say('transaction', () => db.transaction(async (transaction) => { await User.create({ name: 'gone' }, { transaction }); throw new Error('out'); }));
await say('rolled back', () => User.count({ where: { name: 'gone' } }));
await say('commit', () => db.transaction(async (transaction) => { const u = await User.findOne({ where: { name: 'cy' }, lock: true, transaction }); u.age = 21; await u.save({ transaction }); return u.age; }));
await say('query', () => db.query('SELECT name, age + :n AS older FROM sq_users WHERE age > $$5 OR age = :a ORDER BY name'.replace('$$5', '5'), { replacements: { n: 1, a: 21 }, type: QueryTypes.SELECT }));
await say('bind', () => db.query('SELECT length(name) = $1 AS three, $2::int + 1 AS n FROM sq_users ORDER BY id LIMIT 1', { bind: [3, 4], type: QueryTypes.SELECT }));
const it = db.getQueryInterface();
await say('describe', () => it.describeTable('sq_posts'));
await say('addColumn', () => it.addColumn('sq_posts', 'extra', { type: DataTypes.STRING(5), allowNull: false, defaultValue: 'e' }).then(() => 1));
await say('changeColumn', () => it.changeColumn('sq_posts', 'extra', { type: DataTypes.TEXT, allowNull: true, defaultValue: 'f' }).then(() => 1));
await say('renameColumn', () => it.renameColumn('sq_posts', 'extra', 'more').then(() => 1));
await say('addIndex', () => it.addIndex('sq_posts', ['title', 'size'], { name: 'by_title', unique: true }).then(() => 1));
await say('showIndex', () => it.showIndex('sq_posts').then((all) => all.map((i) => [i.name, i.unique, i.primary, i.fields.map((f) => f.attribute)])));
await say('constraint', () => it.addConstraint('sq_posts', { type: 'check', fields: ['size'], name: 'small', where: { size: { [Op.lt]: 100 } } }).then(() => 1));
await say('violated', () => Post.create({ title: 'big', size: 1000, userId: 1 }));
await say('dropConstraint', () => it.removeConstraint('sq_posts', 'small').then(() => 1));
await say('removeColumn', () => it.removeColumn('sq_posts', 'more').then(() => 1));
await say('keys', () => it.getForeignKeyReferencesForTable('sq_posts').then((all) => all.map((k) => [k.columnName, k.referencedTableName, k.referencedColumnName])));
await say('tables', () => it.showAllTables().then((all) => all.filter((t) => String(t).startsWith('sq_')).sort()));
await say('truncate', () => Post.truncate().then(() => Post.count()));
await say('delete', () => ann.destroy().then(() => User.count()));
await say('drop', () => db.drop().then(() => 1));
await db.close();
