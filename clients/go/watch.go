package termgate

import (
	"context"
	"fmt"
	"time"
)

// Leader is who leads a scope; the zero value: nobody.
type Leader struct {
	Owner    string
	Term     int64
	Endpoint string // "" where the holder gave none
}

// Watch calls changed with who leads, and then at each change of owner or term, until ctx ends. It takes no part in the election.
//
// It looks every interval (10 ms to 1 day), when the lease can end, and ten times a second while nobody leads; what comes and goes between
// two looks is not seen. An error ends it: the driver's, or context.DeadlineExceeded where no answer comes for 10 s. That is no change of
// leader: watch again. What it reports may be over by the time that you read it, so never write because of it.
func (t *Termgate) Watch(ctx context.Context, scope string, interval time.Duration, changed func(Leader)) error {
	if interval < 10*time.Millisecond || interval > 24*time.Hour {
		return fmt.Errorf("TG005 an interval is 10 ms to 1 day, not %v", interval)
	}
	for last := (Leader{Term: -1}); ; {
		row, err := t.call(ctx, 10*time.Second, "lease", scope)
		if err != nil {
			return err
		}
		leader, pause := Leader{}, 100*time.Millisecond
		if left := number(row["remaining_ms"]); left > 0 {
			leader = Leader{Owner: row["owner_id"], Term: number(row["term"]), Endpoint: row["endpoint"]}
			pause = time.Duration(left+1) * time.Millisecond
		}
		if leader.Owner != last.Owner || leader.Term != last.Term {
			changed(leader)
		}
		last = leader
		sleep(ctx, shortest(interval, pause))
	}
}
