// database/sql with lib/pq: a pool belongs to one term. Opened when the term is won, closed when it is lost; no statement changes.
package main

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"

	"github.com/lib/pq"
)

// Every connection of the pool declares the term when it starts. A lost term is a pool that is closed.
func openUnder(address, scope, term string) (*sql.DB, error) {
	place, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	query := place.Query()
	if term != "" {
		query.Set("termgate.scope", scope)
		query.Set("termgate.term", term)
	}
	place.RawQuery = query.Encode()
	return sql.Open("postgres", place.String())
}

// A new leader's first act, in a transaction of its own.
func raiseFence(db *sql.DB, scope, term string) error {
	_, err := db.Exec("SELECT termgate.check_term($1, $2)", scope, term)
	return err
}

func main() {
	scope, term := os.Getenv("TERMGATE_SCOPE"), os.Getenv("TERMGATE_TERM")
	db, err := openUnder(os.Getenv("EXAMPLE_URL"), scope, term)
	if err == nil && os.Getenv("EXAMPLE_WON") != "" {
		err = raiseFence(db, scope, term)
	}
	if err == nil {
		defer db.Close()
		_, err = db.Exec("UPDATE accounts SET balance = balance - $1 WHERE id = $2", 30, 42)
	}
	var refused *pq.Error
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
