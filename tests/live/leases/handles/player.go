// The Go client as the behaviour suite drives it (tests/live/leases/handles_test.py; the protocol is in handles/lab.py).
package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lib/pq"
	"termgate"
)

type loop struct {
	cancel context.CancelFunc
	fails  chan struct{}
}

var (
	mutex  sync.Mutex
	leases = map[string]*termgate.Lease{}
	loops  = map[string]loop{}
)

func say(words ...any) {
	line := make([]string, len(words))
	for at, word := range words {
		line[at] = strings.NewReplacer("\t", " ", "\n", " ").Replace(fmt.Sprint(word))
	}
	mutex.Lock()
	defer mutex.Unlock()
	fmt.Println(strings.Join(line, "\t"))
}

func lease(name string) *termgate.Lease {
	mutex.Lock()
	defer mutex.Unlock()
	return leases[name]
}

func keep(name string, held *termgate.Lease) {
	mutex.Lock()
	defer mutex.Unlock()
	leases[name] = held
}

func milliseconds(text string) time.Duration {
	number, _ := strconv.Atoi(text)
	return time.Duration(number) * time.Millisecond
}

func client(words []string) (*termgate.Termgate, error) {
	db, err := sql.Open("postgres", words[2])
	if err != nil {
		return nil, err
	}
	return termgate.New(db, termgate.Database(words[3])), nil
}

func hold(words []string) error {
	leases, err := client(words)
	if err != nil {
		return err
	}
	ttl := milliseconds(words[5])
	if ttl == 0 {
		ttl = 1 // zero stands for the default
	}
	options := termgate.Options{TTL: ttl, Wait: milliseconds(words[6]), Owner: words[7], Endpoint: words[8]}
	held, err := leases.Hold(context.Background(), words[4], options)
	if errors.Is(err, termgate.ErrHeld) {
		say(words[1], "blocked", err)
		return nil
	}
	if err != nil {
		return err
	}
	keep(words[1], held)
	say(words[1], "held", held.Term, held.Owner)
	<-held.AskedToLeave().Done()
	if held.Context().Err() == nil {
		say(words[1], "asked")
	}
	<-held.Context().Done()
	say(words[1], "lost")
	return nil
}

func write(words []string) error {
	db, err := sql.Open("postgres", words[3])
	if err != nil {
		return err
	}
	defer db.Close()
	insert := "INSERT INTO written VALUES (" + words[4] + ")"
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := lease(words[2]).Declare(context.Background(), tx); err != nil {
		return err
	}
	if _, err := tx.Exec(insert); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	if words[5] == "twice" {
		if _, err := db.Exec(insert); err != nil {
			return err
		}
	}
	say(words[1], "written")
	return nil
}

func lead(words []string) error {
	leases, err := client(words)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	mine := loop{cancel, make(chan struct{})}
	mutex.Lock()
	loops[words[1]] = mine
	mutex.Unlock()
	err = leases.Lead(ctx, words[4], termgate.Options{TTL: milliseconds(words[5])}, func(ctx context.Context, held *termgate.Lease) error {
		say(words[1], "leading", held.Term)
		select {
		case <-ctx.Done():
			say(words[1], "stopped")
			return nil
		case <-mine.fails:
			return errors.New("the work failed")
		}
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	say(words[1], "done")
	return nil
}

func watch(words []string) error {
	leases, err := client(words)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	mutex.Lock()
	loops[words[1]] = loop{cancel, nil}
	mutex.Unlock()
	err = leases.Watch(ctx, words[4], milliseconds(words[5]), func(leader termgate.Leader) {
		if leader == (termgate.Leader{}) {
			say(words[1], "now")
		} else {
			say(words[1], "now", leader.Owner, leader.Term, leader.Endpoint)
		}
	})
	if !errors.Is(err, context.Canceled) {
		return err
	}
	say(words[1], "done")
	return nil
}

func play(words []string) {
	var err error
	switch words[0] {
	case "hold":
		err = hold(words)
	case "held":
		say(words[1], lease(words[2]).Held())
	case "release":
		var released bool
		if released, err = lease(words[2]).Release(); err == nil {
			say(words[1], "released", released)
		}
	case "write":
		err = write(words)
	case "lead":
		err = lead(words)
	case "watch":
		err = watch(words)
	case "stop":
		loops[words[2]].cancel()
		say(words[1], "ok")
	case "fail":
		close(loops[words[2]].fails)
		say(words[1], "ok")
	}
	if err != nil {
		code := ""
		var refused *pq.Error
		if errors.As(err, &refused) {
			code = string(refused.Code)
		}
		say(words[1], "error", code, err)
	}
}

func main() {
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() && input.Text() != "quit" {
		words := strings.Split(input.Text(), "\t")
		for at := range words {
			words[at], _ = url.PathUnescape(words[at])
		}
		go play(words)
	}
	for _, held := range leases { // what the deferred Release of each does
		_, _ = held.Release()
	}
	say("player", "gone")
}
