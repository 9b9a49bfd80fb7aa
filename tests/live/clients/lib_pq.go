// What Go programs on lib/pq do, printed so that two runs can be compared. Where to connect: libpq's environment.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/lib/pq"
)

func say(name string, values ...interface{}) {
	text := name + ":"
	for _, value := range values {
		switch v := value.(type) {
		case nil:
			text += " <nil>"
		case *pq.Error:
			text += fmt.Sprintf(" error %s %s %s at %s", v.Severity, v.Code, v.Message, v.Position)
		default:
			text += fmt.Sprintf(" %v", v)
		}
	}
	fmt.Println(text)
}

func notified(exec func(name, text string, values ...interface{})) {
	listener := pq.NewListener("sslmode=disable", time.Second, time.Minute, nil)
	say("listen", listener.Listen("gopq"))
	exec("notify", "notify gopq, 'hey'")
	select {
	case one := <-listener.Notify:
		say("notified", one.Channel, one.Extra)
	case <-time.After(5 * time.Second):
		say("not notified")
	}
	listener.Close()
}

func main() {
	db, err := sql.Open("postgres", "sslmode=disable")
	if err != nil {
		panic(err)
	}
	defer db.Close()
	exec := func(name, text string, values ...interface{}) {
		result, err := db.Exec(text, values...)
		if err != nil {
			say(name, err)
			return
		}
		count, err := result.RowsAffected()
		say(name, count, err)
	}
	exec("drop", "drop table if exists gopq")
	exec("make", "create table gopq(i int primary key, v text, b bytea)")
	exec("insert", "insert into gopq values (1, 'a')")
	exec("with values", "insert into gopq values ($1, $2, $3)", 2, "b", []byte{0, 1})
	exec("duplicate", "insert into gopq values ($1, $2, $3)", 2, "b", nil)
	statement, err := db.Prepare("insert into gopq (i) values ($1) returning i")
	say("prepare", err)
	for key := 10; key < 15; key++ {
		var got int
		say("prepared", statement.QueryRow(key).Scan(&got), got)
	}
	var got int
	say("prepared duplicate", statement.QueryRow(10).Scan(&got))
	statement.Close()

	tx, _ := db.Begin()
	_, err = tx.Exec("insert into gopq (i) values (20)")
	say("in a transaction", err)
	_, err = tx.Exec("insert into gopq (i) values ($1)", 20)
	say("that fails", err)
	_, err = tx.Exec("select 1")
	say("failed", err)
	say("commit of it", tx.Commit())
	tx, _ = db.BeginTx(context.Background(), &sql.TxOptions{ReadOnly: true})
	_, err = tx.Exec("insert into gopq (i) values (22)")
	say("read only", err, tx.Rollback())

	tx, _ = db.Begin()
	in, err := tx.Prepare(pq.CopyIn("gopq", "i", "v"))
	say("copy", err)
	for key := 1000; key < 4000; key++ {
		if _, err = in.Exec(key, "copied"); err != nil {
			break
		}
	}
	_, last := in.Exec()
	say("copied", err, last, in.Close(), tx.Commit())
	tx, _ = db.Begin()
	in, _ = tx.Prepare(pq.CopyIn("gopq", "i", "v"))
	in.Exec(1000, "again")
	_, last = in.Exec()
	say("copy that fails", last, tx.Rollback())

	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	_, err = db.ExecContext(ctx, "select pg_sleep(20)")
	say("cancelled", err)
	cancel()

	notified(exec)

	rows, err := db.Query("select i, v, b from gopq where i < 30 order by i")
	say("rows", err)
	for rows.Next() {
		var v sql.NullString
		var b []byte
		say("row", rows.Scan(&got, &v, &b), got, v, b)
	}
	var count, sum int
	say("end", db.QueryRow("select count(*), sum(i) from gopq").Scan(&count, &sum), count, sum)
	exec("drop", "drop table gopq")
}
