// pgx: a pool belongs to one term. Opened when the term is won, closed when it is lost; no statement changes.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/jackc/pgconn"
	"github.com/jackc/pgx/v4/pgxpool"
)

// Every connection of the pool declares the term when it starts. A lost term is a pool that is closed.
func openUnder(address, scope, term string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, err
	}
	if term != "" {
		config.ConnConfig.RuntimeParams["termgate.scope"] = scope
		config.ConnConfig.RuntimeParams["termgate.term"] = term
	}
	return pgxpool.ConnectConfig(context.Background(), config)
}

// A new leader's first act, in a transaction of its own.
func raiseFence(pool *pgxpool.Pool, scope, term string) error {
	_, err := pool.Exec(context.Background(), "SELECT termgate.check_term($1, $2::text::bigint)", scope, term)
	return err
}

func main() {
	scope, term := os.Getenv("TERMGATE_SCOPE"), os.Getenv("TERMGATE_TERM")
	pool, err := openUnder(os.Getenv("EXAMPLE_URL"), scope, term)
	if err == nil && os.Getenv("EXAMPLE_WON") != "" {
		err = raiseFence(pool, scope, term)
	}
	if err == nil {
		defer pool.Close()
		_, err = pool.Exec(context.Background(), "UPDATE accounts SET balance = balance - $1 WHERE id = $2", 30, 42)
	}
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		fmt.Println("refused", refused.Code)
		os.Exit(3)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("written")
}
