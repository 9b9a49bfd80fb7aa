-- pgbench's own texts, majors 13 to 18: -i (client and server side, unlogged, with fillfactor and partitions left out), TPC-B, -N and -S
-- in their simple and their extended form. A line of dashes between two.
drop table if exists pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers
----
create table pgbench_history(tid int,bid int,aid    int,delta int,mtime timestamp,filler char(22))
----
create table pgbench_tellers(tid int not null,bid int,tbalance int,filler char(84)) with (fillfactor=100)
----
create table pgbench_accounts(aid    int not null,bid int,abalance int,filler char(84)) with (fillfactor=100)
----
create table pgbench_branches(bid int not null,bbalance int,filler char(88)) with (fillfactor=100)
----
drop table if exists pgbench_scratch
----
create unlogged table pgbench_scratch(aid    bigint not null,bid int,abalance int,filler char(84)) with (fillfactor=90)
----
begin
----
truncate table pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers
----
insert into pgbench_branches(bid,bbalance) values(1,0)
----
insert into pgbench_tellers(tid,bid,tbalance) values (1,1,0)
----
copy pgbench_accounts from stdin
----
copy pgbench_accounts from stdin with (freeze on)
----
insert into pgbench_branches(bid,bbalance) select bid, 0 from generate_series(2, 3) as bid
----
insert into pgbench_tellers(tid,bid,tbalance) select tid, (tid - 1) / 10 + 1, 0 from generate_series(2, 30) as tid
----
insert into pgbench_accounts(aid,bid,abalance,filler) select aid, (aid - 1) / 100000 + 1, 0, '' from generate_series(1, 300) as aid
----
commit
----
vacuum analyze pgbench_branches
----
vacuum analyze pgbench_tellers
----
vacuum analyze pgbench_accounts
----
vacuum analyze pgbench_history
----
vacuum pgbench_branches
----
truncate pgbench_history
----
alter table pgbench_branches add primary key (bid)
----
alter table pgbench_tellers add primary key (tid)
----
alter table pgbench_accounts add primary key (aid)
----
select count(*) from pgbench_branches
----
select o.n, p.partstrat, pg_catalog.count(i.inhparent) from pg_catalog.pg_class as c join pg_catalog.pg_namespace as n on (n.oid = c.relnamespace) cross join lateral (select pg_catalog.array_position(pg_catalog.current_schemas(true), n.nspname)) as o(n) left join pg_catalog.pg_partitioned_table as p on (p.partrelid = c.oid) left join pg_catalog.pg_inherits as i on (c.oid = i.inhparent) where c.relname = 'pgbench_accounts' and o.n is not null group by 1, 2 order by 1 asc limit 1
----
BEGIN;
----
UPDATE pgbench_accounts SET abalance = abalance + -5 WHERE aid = 7;
----
UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2;
----
SELECT abalance FROM pgbench_accounts WHERE aid = 7;
----
SELECT abalance FROM pgbench_accounts WHERE aid = $1;
----
UPDATE pgbench_tellers SET tbalance = tbalance + -5 WHERE tid = 3;
----
UPDATE pgbench_branches SET bbalance = bbalance + -5 WHERE bid = 1;
----
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (3, 1, 7, -5, CURRENT_TIMESTAMP);
----
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES ($1, $2, $3, $4, CURRENT_TIMESTAMP);
----
END;
