// Package termgate holds a lease of Termgate, so that a program writes under its term.
//
//	leases := termgate.New(db, termgate.PostgreSQL)  // a *sql.DB of any driver; each held lease uses one of its connections
//	lease, err := leases.Hold(ctx, "billing", termgate.Options{TTL: 10 * time.Second, Wait: 30 * time.Second})
//	defer lease.Release()
//	for lease.Context().Err() == nil {
//		tx, err := db.BeginTx(lease.Context(), nil)
//		err = lease.Declare(ctx, tx)              // TG001: another leads by now
//		_, err = tx.Exec("UPDATE accounts SET balance = balance - 30 WHERE id = 42")
//		err = tx.Commit()
//	}
//
// The lease is renewed in the background. Its context is cancelled a margin (a fifth of the TTL) before the lease can be another's, counted
// from when the last renewal that succeeded was sent, by Go's monotonic clock. The database refuses what was written too late.
// Watch tells others who leads.
package termgate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/maphash"
	"log"
	"os"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// ErrHeld is what Hold's error wraps where another has held the lease for all of Options.Wait.
var ErrHeld, errTTL = errors.New("TG006 the lease is held by another"), errors.New("TG005 a TTL is 100 ms to 1 day")

// Options of a lease; the zero value of each field stands for its default.
type Options struct {
	TTL      time.Duration // 100 ms to 1 day; 10 s
	Wait     time.Duration // while another holds it; 0: one try
	Owner    string        // a name of its own for each lease
	Endpoint string        // where the holder can be reached; for people and followers
}

// Termgate has the leases of one database. Any goroutine may use it.
type Termgate struct {
	db    *sql.DB
	texts map[string]string
	Warn  func(format string, values ...any) // what a lease goes on after; log.Printf
}

// New takes the pool whose connections the leases use. A pool that work can exhaust delays renewals: give the leases one of their own.
// A layer 1 in another schema than "termgate" is named after the database.
func New(db *sql.DB, database Database, schema ...string) *Termgate {
	layer := append(schema, "termgate")[0]
	begin, end, mark := `"`, `"`, "$$$1"
	if database == SQLServer {
		begin, end, mark = "[", "]", "@p$1"
	}
	texts := map[string]string{}
	for name, text := range statements[database] {
		text = regexp.MustCompile(`\$(\d)`).ReplaceAllString(text, mark)
		texts[name] = strings.ReplaceAll(text, "@schema@", begin+strings.ReplaceAll(layer, end, end+end)+end)
	}
	return &Termgate{db: db, texts: texts, Warn: log.Printf}
}

// Hold acquires the lease and keeps it. The lease's context is a child of ctx, which also ends the wait. The caller releases the lease.
func (t *Termgate) Hold(ctx context.Context, scope string, options Options) (*Lease, error) {
	if options.TTL == 0 {
		options.TTL = 10 * time.Second
	} else if options.TTL < 100*time.Millisecond || options.TTL > 24*time.Hour {
		return nil, fmt.Errorf("%w, not %v", errTTL, options.TTL)
	}
	if options.Owner == "" {
		host, _ := os.Hostname()
		options.Owner = fmt.Sprintf("%s:%d:%08x", host, os.Getpid(), int64(between(0, 1<<32)))
	}
	giveUp := clock() + options.Wait
	var row map[string]string
	for step := 10 * time.Millisecond; ; step = shortest(2*step, 500*time.Millisecond) {
		patience := giveUp - clock() + options.TTL
		if number(row["remaining_ms"]) <= 0 {
			lease, err := t.acquire(ctx, patience, scope, options)
			if lease != nil || err != nil {
				return lease, err
			}
		}
		var err error
		if row, err = t.call(ctx, patience, "lease", scope); err != nil { // only a look: it locks nothing
			return nil, err
		}
		if giveUp <= clock() {
			return nil, fmt.Errorf("%w: scope %q", ErrHeld, scope)
		}
		end := time.Duration(number(row["remaining_ms"]))*time.Millisecond + between(time.Millisecond, 10*time.Millisecond)
		sleep(ctx, shortest(between(step/2, step*3/2), end, giveUp-clock()))
	}
}

// acquire returns no lease where another holds it.
func (t *Termgate) acquire(ctx context.Context, patience time.Duration, scope string, options Options) (*Lease, error) {
	sent, ttl := clock(), options.TTL.Milliseconds()
	row, err := t.call(ctx, patience, "acquire_lease", scope, options.Owner, ttl, sql.NullString{String: options.Endpoint, Valid: options.Endpoint != ""}, nil)
	if err != nil || !yes(row["acquired"]) {
		return nil, err
	}
	lease := &Lease{Scope: scope, Owner: options.Owner, Term: number(row["term"]), termgate: t, ttl: options.TTL}
	// A grant that had to wait, for an eviction perhaps, comes late: a renewal counts anew.
	if clock()-sent > options.TTL/2 {
		sent = clock()
		if row, err = t.call(ctx, patience, "renew_lease", scope, lease.Owner, lease.Term, ttl); err != nil || !yes(row["renewed"]) {
			return nil, fmt.Errorf("the lease of scope %q came too late; its TTL is %v: %v", scope, options.TTL, err)
		}
	}
	lease.ctx, lease.lose = context.WithCancel(ctx)
	lease.kept, lease.stop = context.WithCancel(context.Background())
	lease.asked, lease.ask = context.WithCancel(lease.ctx)
	go lease.keep(lease.renewedFrom(sent))
	return lease, nil
}

// Lead calls work each time this process has become the leader, until work returns while the lease is held and nobody asks for it, or ctx
// ends. The context that work gets is the lease's AskedToLeave.
func (t *Termgate) Lead(ctx context.Context, scope string, options Options, work func(context.Context, *Lease) error) error {
	options.Wait = time.Hour
	for ctx.Err() == nil {
		lease, err := t.Hold(ctx, scope, options)
		if errors.Is(err, errTTL) {
			return err
		} else if err != nil {
			t.Warn("no lease of scope %q: %v", scope, err)
			sleep(ctx, between(250*time.Millisecond, time.Second))
			continue
		}
		options.Owner = lease.Owner // whoever is asked to leave has no part in the next election
		failed, held := func() (error, bool) {
			defer func() { _, err = lease.Release() }()
			return work(lease.asked, lease), lease.Held() && lease.asked.Err() == nil
		}()
		if held || ctx.Err() != nil {
			return failed
		}
		t.Warn("the work under term %d of scope %q has ended, and another may lead: %v %v", lease.Term, scope, failed, err)
	}
	return ctx.Err()
}

// call returns the first row, an empty one where there is none. It gives up after `patience`, although a driver may hang for longer.
func (t *Termgate) call(ctx context.Context, patience time.Duration, name string, values ...any) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	row, failed := map[string]string{}, make(chan error, 1)
	go func() { failed <- t.row(ctx, row, name, values) }()
	select {
	case err := <-failed:
		return row, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// row sets texts, whatever the driver makes of a bigint or a boolean, and "" for NULL; nothing where there is no row.
func (t *Termgate) row(ctx context.Context, row map[string]string, name string, values []any) error {
	rows, err := t.db.QueryContext(ctx, t.texts[name], values...)
	if err != nil {
		return err
	}
	defer rows.Close()
	columns, _ := rows.Columns() // fails where rows are closed, which Next says too
	if !rows.Next() {
		return rows.Err()
	}
	texts, places := make([]sql.NullString, len(columns)), make([]any, len(columns))
	for at := range places {
		places[at] = &texts[at]
	}
	err = rows.Scan(places...)
	for at, column := range columns {
		row[column] = texts[at].String
	}
	return err
}

// Lease is a lease that is held, from Hold. Any goroutine may use it.
type Lease struct {
	Scope, Owner     string
	Term             int64
	termgate         *Termgate
	ttl              time.Duration
	ctx, asked, kept context.Context // the holder's, two of them; the renewals'
	lose, ask, stop  context.CancelFunc
	until            atomic.Int64 // how long the lease may be trusted, by clock()
	givenBack        atomic.Bool
}

// Context is cancelled when the lease can no longer be trusted, was released, or the context that Hold got has ended.
func (l *Lease) Context() context.Context { return l.ctx }

// AskedToLeave is cancelled when somebody asks for the lease, which is held as before for a while, and when Context is.
func (l *Lease) AskedToLeave() context.Context { return l.asked }

// Held says whether the lease may be trusted at this moment, by the clock.
func (l *Lease) Held() bool { return l.kept.Err() == nil && clock() < time.Duration(l.until.Load()) }

// Declare comes first in a transaction that writes, a *sql.Tx: it checks the term and declares it.
func (l *Lease) Declare(ctx context.Context, tx interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}) error {
	_, err := tx.ExecContext(ctx, l.termgate.texts["check_term"], l.Scope, l.Term)
	return err
}

// Release gives the lease back, so that another can have it at once. False: it was no longer held.
func (l *Lease) Release() (bool, error) {
	held := l.Held() && l.givenBack.CompareAndSwap(false, true)
	l.lose()
	l.stop()
	for attempt := 0; held; attempt++ {
		left := time.Duration(l.until.Load()) - clock()
		row, err := l.termgate.call(context.Background(), left, "release_lease", l.Scope, l.Owner, l.Term)
		if err == nil || attempt == 4 || left <= 0 {
			return yes(row["released"]), err
		}
		time.Sleep(10 * time.Millisecond << attempt)
	}
	return false, nil
}

// renewedFrom returns when the next renewal is due. `sent` is the moment from which the database counts at the earliest.
func (l *Lease) renewedFrom(sent time.Duration) time.Duration {
	if until := int64(sent + l.ttl - l.ttl/5); until > l.until.Load() {
		l.until.Store(until)
	}
	return sent + between(l.ttl/4, l.ttl/3) // up to a quarter earlier than a third: holders elected together do not renew together
}

// keep sends the renewals and watches the clock, whatever a renewal does.
func (l *Lease) keep(due time.Duration) {
	defer func() { l.stop(); l.lose() }()
	answers := make(chan func() bool, 16) // what follows from each; false: the lease is lost
	for now := clock(); now < time.Duration(l.until.Load()); now = clock() {
		if now >= due {
			// Without an answer by then its connection may be dead, so another is sent. The answer counts if it still comes.
			due = now + l.ttl/4
			go func(sent time.Duration) {
				row, err := l.termgate.call(l.kept, l.ttl, "renew_lease", l.Scope, l.Owner, l.Term, l.ttl.Milliseconds())
				answers <- func() bool {
					if row["leave_in_ms"] != "" {
						l.ask()
					}
					if err != nil {
						l.termgate.Warn("the lease of scope %q was not renewed: %v", l.Scope, err)
						due = clock() + between(l.ttl*3/80, l.ttl/16)
					} else if yes(row["renewed"]) && l.Held() {
						due = l.renewedFrom(sent)
					}
					return err != nil || yes(row["renewed"])
				}
			}(now)
		}
		select {
		case <-l.kept.Done():
			return
		case follow := <-answers:
			if !follow() {
				return
			}
		case <-time.After(shortest(due, time.Duration(l.until.Load())) - now):
		}
	}
}

var start = time.Now()     // with Go's monotonic clock, which nobody sets
func clock() time.Duration { return time.Since(start) }

func yes(value string) bool { return value == "true" || value == "1" }
func number(value string) int64 {
	whole, _ := strconv.ParseInt(value, 10, 64)
	return whole
}
func between(low, high time.Duration) time.Duration {
	return low + time.Duration(new(maphash.Hash).Sum64()%uint64(high-low)) // each Hash has a random seed
}
func shortest(durations ...time.Duration) time.Duration {
	sort.Slice(durations, func(i, j int) bool { return durations[i] < durations[j] })
	return durations[0]
}
func sleep(ctx context.Context, pause time.Duration) {
	end, cancel := context.WithTimeout(ctx, pause)
	defer cancel()
	<-end.Done()
}
