// What Go programs on pgx do, printed so that two runs can be compared. Where to connect: libpq's environment.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgconn"
	"github.com/jackc/pgx/v4"
	"github.com/jackc/pgx/v4/pgxpool"
)

var ctx = context.Background()

func say(name string, values ...interface{}) {
	text := name + ":"
	for _, value := range values {
		var refused *pgconn.PgError
		if err, ok := value.(error); ok && errors.As(err, &refused) {
			text += fmt.Sprintf(" error %s %s %s at %d", refused.Severity, refused.Code, refused.Message, refused.Position)
		} else if value == nil {
			text += " <nil>"
		} else {
			text += fmt.Sprintf(" %v", value)
		}
	}
	fmt.Println(text)
}

// pgx reads libpq's environment, but not PGOPTIONS.
func connect() *pgx.Conn {
	config, err := pgx.ParseConfig("")
	if err != nil {
		panic(err)
	}
	config.RuntimeParams["options"] = os.Getenv("PGOPTIONS")
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		panic(err)
	}
	return conn
}

// Whoever can begin a transaction or a savepoint, and run a statement.
type runner interface {
	Begin(context.Context) (pgx.Tx, error)
	Exec(context.Context, string, ...interface{}) (pgconn.CommandTag, error)
	QueryRow(context.Context, string, ...interface{}) pgx.Row
	SendBatch(context.Context, *pgx.Batch) pgx.BatchResults
}

func exec(on runner, name, text string, values ...interface{}) {
	tag, err := on.Exec(ctx, text, values...)
	say(name, tag, err)
}

func batch(on runner, name string, statements ...string) {
	all := &pgx.Batch{}
	for _, statement := range statements {
		all.Queue(statement)
	}
	results := on.SendBatch(ctx, all)
	for range statements {
		tag, err := results.Exec()
		say(name, tag, err)
	}
	say(name+" ends", results.Close())
}

func values(conn *pgx.Conn) {
	when := time.Date(2024, 2, 29, 14, 30, 45, 123456000, time.UTC)
	exec(conn, "types", "insert into gopgx (i, v, b, t, n, j, a, f) values ($1, $2, $3, $4, $5, $6, $7, $8)", 2, "b", []byte{0, 1, 255}, when, "12.50", map[string]int{"k": 1}, []int32{1, 2}, 0.1)
	var v string
	var b []byte
	var t time.Time
	var n string
	var j map[string]int
	var a []int32
	var f float64
	err := conn.QueryRow(ctx, "select v, b, t, n::text, j, a, f from gopgx where i = $1", 2).Scan(&v, &b, &t, &n, &j, &a, &f)
	say("read back", err, v, b, t.UTC(), n, j, a, f)
	// A Bind of more than 64 KiB for a prepared read.
	var size int
	_, err = conn.Prepare(ctx, "large", "select length($1::text)")
	say("prepare", err)
	for _, length := range []int{60000, 65530, 65536, 200000, 1 << 20} {
		say("large", conn.QueryRow(ctx, "large", strings.Repeat("x", length)).Scan(&size), size)
	}
	say("deallocate", conn.Deallocate(ctx, "large"))
}

func transactions(conn *pgx.Conn) {
	tx, _ := conn.Begin(ctx)
	exec(tx, "in a transaction", "insert into gopgx (i) values (20)")
	inner, err := tx.Begin(ctx)
	say("savepoint", err)
	exec(inner, "that fails", "insert into gopgx (i) values ($1)", 20)
	exec(inner, "failed", "select 1")
	say("back", inner.Rollback(ctx))
	inner, err = tx.Begin(ctx)
	say("again", err)
	exec(inner, "behind it", "insert into gopgx (i) values ($1)", 21)
	say("released", inner.Commit(ctx))
	batch(tx, "batch in a transaction", "insert into gopgx (i) values (22)", "select count(*) from gopgx")
	say("commit", tx.Commit(ctx))
	tx, _ = conn.Begin(ctx)
	exec(tx, "fails", "insert into gopgx (i) values (20)")
	say("commit of it", tx.Commit(ctx))
	for _, options := range []pgx.TxOptions{{IsoLevel: pgx.Serializable}, {IsoLevel: pgx.RepeatableRead}, {AccessMode: pgx.ReadOnly}, {IsoLevel: pgx.Serializable, AccessMode: pgx.ReadOnly, DeferrableMode: pgx.Deferrable}} {
		tx, err = conn.BeginTx(ctx, options)
		var level string
		say("level", err, tx.QueryRow(ctx, "show transaction_isolation").Scan(&level), level)
		exec(tx, "writes", "update gopgx set v = 'w' where i = 20")
		say("ends", tx.Rollback(ctx))
	}
}

func main() {
	conn := connect()
	exec(conn, "drop", "drop table if exists gopgx")
	exec(conn, "make", "create table gopgx (i int primary key, v text, b bytea, t timestamptz, n numeric(10,2), j jsonb, a int[], f float8)")
	exec(conn, "insert", "insert into gopgx (i, v) values (1, 'a')")
	values(conn)
	exec(conn, "duplicate", "insert into gopgx (i) values ($1)", 2)
	exec(conn, "text", "insert into gopgx (i, v) values ($1, $2)", pgx.QuerySimpleProtocol(true), 3, "it's \\ simple")
	for key := 10; key < 15; key++ {
		var got int
		say("prepared", conn.QueryRow(ctx, "insert into gopgx (i) values ($1) returning i", key).Scan(&got), got)
	}
	batch(conn, "batch", "insert into gopgx (i) values (15)", "select 1", "insert into gopgx (i) values (16)")
	batch(conn, "batch that fails", "insert into gopgx (i) values (17)", "insert into gopgx (i) values (15)", "select 1")
	var count, sum int
	say("all or nothing", conn.QueryRow(ctx, "select count(*) from gopgx where i = 17").Scan(&count), count)
	transactions(conn)

	copied, err := conn.CopyFrom(ctx, pgx.Identifier{"gopgx"}, []string{"i", "v"}, pgx.CopyFromSlice(3000, func(row int) ([]interface{}, error) { return []interface{}{1000 + row, "copied"}, nil }))
	say("copied", copied, err)
	copied, err = conn.CopyFrom(ctx, pgx.Identifier{"gopgx"}, []string{"i", "v"}, pgx.CopyFromRows([][]interface{}{{7000, "x"}, {1000, "again"}}))
	say("copy that fails", copied, err)
	copied, err = conn.CopyFrom(ctx, pgx.Identifier{"gopgx"}, []string{"i"}, pgx.CopyFromSlice(5, func(row int) ([]interface{}, error) {
		if row == 3 {
			return nil, errors.New("no more")
		}
		return []interface{}{8000 + row}, nil
	}))
	say("copy given up", copied, err != nil)

	soon, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	other := connect()
	_, err = other.Exec(soon, "select pg_sleep(20)")
	say("cancelled", err != nil, other.IsClosed())
	cancel()

	listener := connect()
	exec(listener, "listen", "listen gopgx")
	exec(conn, "notify", "notify gopgx, 'hey'")
	waiting, stop := context.WithTimeout(ctx, 5*time.Second)
	notice, err := listener.WaitForNotification(waiting)
	stop()
	if err == nil {
		say("notified", notice.Channel, notice.Payload)
	}
	say("listened", err, listener.Close(ctx))

	config, _ := pgxpool.ParseConfig("")
	config.MaxConns = 4
	config.ConnConfig.RuntimeParams["options"] = os.Getenv("PGOPTIONS")
	pool, err := pgxpool.ConnectConfig(ctx, config)
	say("pool", err)
	var wait sync.WaitGroup
	var lock sync.Mutex
	var keys []int
	for worker := 0; worker < 8; worker++ {
		wait.Add(1)
		go func(worker int) {
			defer wait.Done()
			for n := 0; n < 10; n++ {
				var key int
				if err := pool.QueryRow(ctx, "insert into gopgx (i) values ($1) returning i", 5000+worker*10+n).Scan(&key); err == nil {
					lock.Lock()
					keys = append(keys, key)
					lock.Unlock()
				}
			}
		}(worker)
	}
	wait.Wait()
	pool.Close()
	sort.Ints(keys)
	say("at once", len(keys), keys[0], keys[len(keys)-1])
	rows, err := conn.Query(ctx, "select i, v, b from gopgx where i < 30 order by i")
	say("rows", err)
	for rows.Next() {
		var i int
		var v *string
		var b []byte
		err = rows.Scan(&i, &v, &b)
		text := "<nil>"
		if v != nil {
			text = *v
		}
		say("row", err, i, text, b)
	}
	say("rows end", rows.Err())
	say("end", conn.QueryRow(ctx, "select count(*), sum(i) from gopgx").Scan(&count, &sum), count, sum)
	exec(conn, "drop", "drop table gopgx")
	say("closed", conn.Close(ctx))
}
