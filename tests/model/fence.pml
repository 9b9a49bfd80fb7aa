/*
 * The guarantees on PostgreSQL (docs/contract.md, section 2; docs/reference/lock-protocol.md) as a model that spin exhausts: leaders that acquire leases,
 * transactions that check, write, roll back to a savepoint and commit, at READ COMMITTED and on a snapshot, sessions that freeze or crash at any step, raises
 * that evict who stands in their way, and a server that fails over and has forgotten. docs/evidence/model.md ties each step to its SQL.
 *
 * Time is not modelled. A lease may expire and a grace may pass at any moment, which covers every pause, clock and delay.
 *
 * Asserted
 *   F1, F2  no write commits with a term lower than one whose acquisition or write has committed (`shut`)
 *   F3      a term is issued once, failovers included (`owner`)
 *   F4      nobody waits for ever: spin reports a state in which only frozen clients could let the others go on as an invalid end state
 *
 * Sizes: LEADERS, SCOPES, ACQUISITIONS (in all), TRANSACTIONS (for each acquisition), STATEMENTS (of a transaction), FAILOVERS.
 *
 * Each of these puts a mistake in, which must be found (tests/model/model_test.py):
 *   NO_LOCK           the check reads the fence and takes no lock
 *   ONE_STATEMENT     the check's statement takes the lock and reads the fence by a snapshot from before it waited
 *   OLD_SNAPSHOT      at REPEATABLE READ the fence is read as the transaction's snapshot shows it
 *   SEAL_LATE         an acquisition issues the term, and the fence is raised behind the first write
 *   ROLLBACK_IGNORED  a pass is believed after ROLLBACK TO took its lock away
 *   NO_EVICTION       a raise waits for whoever holds the lock
 *   BLIND_EVICTION    a raise ends a session without ending its transaction's locks first being seen to go: it goes on at once
 *   NO_DOUBT          nobody notices that the server has forgotten
 *   NO_JUMP           the acquisition that ends the doubt issues the next term
 *   SAME_JUMP         it jumps by the same distance on every timeline: two failovers issue a term twice
 *
 * With SEATS a session may besides have a seat in scope 0: it writes there without a check, by what is sent to it and run by the server some time later, also where its client has frozen
 * or given it up. Its process has a keeper that lets it stand. With SITS of them. The mistakes then:
 *   NO_SWEEP          a raise looks at Q alone
 *   SWEEP_BLIND       it does not wait for whom it ends
 *   IDLE_VOID         it passes over sessions that run nothing
 *   OWN_RAISE         a session raises the scope in which it sits itself
 *   LATE_SIT          the row of the seat commits when the lock of the check is gone
 *   STAND_BUSY        the keeper stands although an answer is outstanding
 *   FLUSH_IDLE        it takes for idle what has answered and not yet committed (Flush without Sync)
 *   STAND_LOST        it stands for a session that was given up
 *   STAND_LATE        a stand removes whatever seat the session has by then, and not the one that was meant
 *   RENUMBER          the names of seats come again after a crash
 *   MEMORY_LAST       the seat is taken out of the process's memory when the stand is answered, and not before it is sent
 *   PROBE_EARLY       a check is satisfied by the row of a seat whose stand is under way
 *   STALE_LOOK        a check is satisfied by a row that only an old snapshot shows
 *   PREPARE_SEATED    PREPARE TRANSACTION in a session that sits, without a check
 */
#ifndef LEADERS
#define LEADERS 3
#endif
#ifndef SCOPES
#define SCOPES 2
#endif
#ifndef ACQUISITIONS
#define ACQUISITIONS 3
#endif
#ifndef TRANSACTIONS
#define TRANSACTIONS 1
#endif
#ifndef STATEMENTS
#define STATEMENTS 2
#endif
#ifndef FAILOVERS
#define FAILOVERS 1
#endif
#ifndef SITS
#define SITS 2
#endif
#define JUMP (ACQUISITIONS + 1) /* for 2^32: more than a failover can forget */
#define TERMS (ACQUISITIONS + JUMP * FAILOVERS * (FAILOVERS + 3) / 2 + 1)

/* --- the database --- */
byte fence[SCOPES];     /* the committed row of `fences` */
byte before[SCOPES];    /* what a failover brings back */
bool doubt[SCOPES];
byte shared[SCOPES];    /* Q, held shared: a bit for each leader */
byte exclusive[SCOPES]; /* Q, held exclusively: leader + 1 */
byte turnstile[SCOPES]; /* T */
bool ended[LEADERS];    /* the server has ended the session: rolled back, its locks gone; its client learns of it with its next word */

/* --- what is asserted with --- */
byte shut[SCOPES];
byte owner[SCOPES * TERMS];

#ifdef SEATS
/* --- the database --- */
byte row;               /* the committed seats in scope 0: a bit for each leader's session. What a session leaves when it ends is void, and not here */
byte row_term[LEADERS], row_name[LEADERS], names;
byte sent[LEADERS];     /* a write in the session's socket: 1; with FLUSH_IDLE 2 when it has run and not committed */
byte under[LEADERS];    /* its term */
bool given_up[LEADERS]; /* the client has closed the connection; the session ends when it has run what it was sent */
/* --- the process's memory --- */
byte seat[LEADERS];     /* the term of the seat; 0: none */
byte seat_name[LEADERS];
bool busy[LEADERS];     /* something is outstanding, or a transaction is open */
bool standing[LEADERS]; /* a stand was sent and is not answered: the session is not used */
#ifdef STALE_LOOK
byte old_row[LEADERS];  /* in an exported snapshot: the term of the seat that it shows */
#endif
#ifdef PREPARE_SEATED
byte prepared;
#endif
#endif

byte acquisitions, failovers;
byte each, other, i, next; /* for loops; 0 between steps */

#ifdef SNAPSHOT
#define snapshot true
#else
#define snapshot false
#endif
#define BIT(n) (1 << (n))

inline let_go(who) { /* all locks of a session */
  do
  :: each < SCOPES ->
     shared[each] = shared[each] & ~BIT(who);
     if :: exclusive[each] == who + 1 -> exclusive[each] = 0 :: else fi;
     if :: turnstile[each] == who + 1 -> turnstile[each] = 0 :: else fi;
     each++
  :: else -> break
  od;
  each = 0
}

/* The session is no more. */
inline over(who) {
  ended[who] = true; let_go(who);
#ifdef SEATS
  row = row & ~BIT(who); sent[who] = 0; given_up[who] = false; under[who] = 0
#endif
}

/* A raise in the way of which sessions stand ends them, when the grace is over. Those who raise are left alone. */
inline evict(scope) {
  do
  :: other < LEADERS ->
     if
     :: shared[scope] & BIT(other) ->
#ifdef BLIND_EVICTION
        shared[scope] = shared[scope] & ~BIT(other); printf("the raise of scope %d passes over leader %d\n", scope, other)
#else
        over(other); printf("the raise of scope %d ends the session of leader %d\n", scope, other)
#endif
     :: else
     fi;
     other++
  :: else -> break
  od;
  other = 0
}

#ifdef SEATS
/* The grace is over: a raise ends those who sit. Who stands by himself meanwhile is not in `row` any more. */
inline sweep(me) {
  do
  :: other < LEADERS ->
     if
     :: other != me && (row & BIT(other)) ->
#ifdef SWEEP_BLIND
        row = row & ~BIT(other); printf("the raise does not wait for leader %d, whom it ends\n", other)
#elif defined(IDLE_VOID)
        if
        :: sent[other] == 0 -> row = row & ~BIT(other); printf("the raise passes over leader %d\n", other)
        :: else -> over(other)
        fi
#else
        over(other); printf("the raise ends the session of leader %d, which sits\n", other)
#endif
     :: else
     fi;
     other++
  :: else -> break
  od;
  other = 0
}

/* A session that is given what it was sent. */
proctype server(byte who) {
end_server:
  do
#ifdef FLUSH_IDLE
  :: atomic { sent[who] == 1 -> sent[who] = 2 }
  :: atomic { sent[who] == 2 ->
#else
  :: atomic { sent[who] == 1 ->
#endif
       printf("the seated write of leader %d commits, with term %d\n", who, under[who]);
       assert(under[who] >= shut[0]);
       if :: shut[0] < under[who] -> shut[0] = under[who] :: else fi;
       sent[who] = 0; under[who] = 0 }
  :: atomic { given_up[who] && sent[who] == 0 -> over(who) }
#ifdef PREPARE_SEATED
  :: atomic { prepared -> printf("COMMIT PREPARED, with term %d\n", prepared); assert(prepared >= shut[0]); shut[0] = prepared; prepared = 0 }
#endif
#ifdef STALE_LOOK
  :: atomic { old_row[who] == 0 && (row & BIT(who)) -> old_row[who] = row_term[who]; printf("a snapshot is exported that shows the seat of leader %d\n", who) }
#endif
  od
}

/* A process's keeper: when its scope is wanted it takes the seat out of memory, then removes the row. */
proctype keeper(byte who) {
  byte name;
end_keeper:
  do
#if defined(STAND_BUSY)
  :: atomic { turnstile[0] != 0 && seat[who] != 0 ->
#elif defined(FLUSH_IDLE)
  :: atomic { turnstile[0] != 0 && seat[who] != 0 && (!busy[who] || sent[who] == 2) ->
#else
  :: atomic { turnstile[0] != 0 && seat[who] != 0 && !busy[who] ->
#endif
       name = seat_name[who]; printf("the keeper of leader %d lets it stand\n", who);
#ifndef MEMORY_LAST
       seat[who] = 0; seat_name[who] = 0; standing[who] = true
#endif
     }
end_sent:
     atomic {
#ifdef STAND_LATE
       row = row & ~BIT(who);
#else
       if :: row_name[who] == name -> row = row & ~BIT(who) :: else fi;
#endif
#ifdef MEMORY_LAST
       seat[who] = 0; seat_name[who] = 0;
#endif
       standing[who] = false; name = 0 }
  od
}
#endif

/* What does not matter any more is the same in every state: there are fewer of them. */
inline forget() {
  atomic { s = 0; shown = false; passed = 0; wrote = 0; statements = 0; passed_before = 0; wrote_before = 0;
    work = 0; do :: i < SCOPES -> seen[i] = 0; term[i] = 0; i++ :: else -> break od; i = 0 }
}

proctype leader(byte me) {
  byte term[SCOPES];  /* what the leader believes to lead with; 0: nothing */
  byte work;          /* transactions that the last acquisition still allows */
  byte s;             /* the scope at hand */
  bool shown;         /* its snapshot is taken */
  byte seen[SCOPES];  /* the fences in it */
  byte passed;        /* scopes whose check has passed, by bits */
  byte wrote;
  byte statements;
  byte passed_before, wrote_before; /* at the savepoint: there is one in front of each write */
#ifdef SEAL_LATE
  byte to_seal;
#endif
#ifdef ONE_STATEMENT
  byte read;
#endif

idle:
  atomic { s = 0; shown = false; passed = 0; wrote = 0; statements = 0; passed_before = 0; wrote_before = 0;
    do :: i < SCOPES -> seen[i] = 0; i++ :: else -> break od; i = 0;
#ifdef SEATS
    busy[me] = false;
    if :: ended[me] -> seat[me] = 0; seat_name[me] = 0; standing[me] = false :: else fi;
#endif
    ended[me] = false } /* a new session */
  if
#ifdef SEATS
  :: atomic { work > 0 && seat[me] != 0 && !standing[me] -> work--; busy[me] = true } ; goto seated
#ifdef PROBE_EARLY
  :: atomic { work > 0 && standing[me] -> work--; busy[me] = true } ; goto transaction
#endif
  :: work > 0 && standing[me] -> if :: !standing[me] :: ended[me] fi; goto idle
#endif
  :: atomic { acquisitions < ACQUISITIONS && acquisitions >= me -> acquisitions++ } ; goto acquire /* leaders are alike: the first to lead is number 0 */
#ifdef SEATS
  :: atomic { work > 0 && !standing[me] -> work--; busy[me] = true } ; goto transaction
#else
  :: atomic { work > 0 -> work-- } ; goto transaction
#endif
#ifdef SEAL_LATE
  :: to_seal > 0 -> goto seal_late
#endif
  :: else -> goto gone
  fi;

acquire:
  if :: s = 0 :: SCOPES > 1 -> s = 1 fi;
#ifdef SEAL_LATE
  atomic { /* the lease row says who leads; the fence does not know yet */
    next = 1; do :: owner[s * TERMS + next] -> next++ :: else -> break od;
    owner[s * TERMS + next] = me + 1; term[s] = next; printf("leader %d acquires the lease of scope %d, term %d; the fence stands at %d\n", me, s, next, fence[s]); next = 0; work = TRANSACTIONS; to_seal = s + 1
  }
  goto idle;
seal_late:
  s = to_seal - 1; to_seal = 0;
#endif
#if defined(SEATS) && !defined(OWN_RAISE)
  atomic { /* TG005 while it sits there itself: it stands first */
    if :: s == 0 && (row & BIT(me)) -> row = row & ~BIT(me); seat[me] = 0; seat_name[me] = 0 :: else fi }
#endif
  if
  :: atomic { ended[me] -> goto idle }
  :: atomic { !ended[me] && turnstile[s] == 0 -> turnstile[s] = me + 1 }
  fi;
  if :: skip :: atomic { over(me); goto idle } fi; /* its process crashes: the server rolls it back */
  do
  :: atomic { ended[me] -> goto idle }
  :: atomic { !ended[me] && shared[s] == 0 && exclusive[s] == 0 -> exclusive[s] = me + 1; break }
#ifndef NO_EVICTION
  :: atomic { !ended[me] && shared[s] != 0 -> evict(s) }
#endif
  od;
#if defined(SEATS) && !defined(NO_SWEEP)
  do
  :: atomic { ended[me] -> goto idle }
  :: atomic { !ended[me] && (s != 0 || (row & ~BIT(me)) == 0) -> break }
  :: atomic { !ended[me] && s == 0 && (row & ~BIT(me)) != 0 -> sweep(me) }
  od;
#endif
  if
  :: atomic { ended[me] -> goto idle }
  :: atomic { /* compare, raise, commit */
       !ended[me] ->
#ifdef SEAL_LATE
       if :: fence[s] < term[s] -> fence[s] = term[s] :: else fi;
       if :: shut[s] < fence[s] -> shut[s] = fence[s] :: else fi;
       printf("leader %d seals scope %d, term %d\n", me, s, fence[s]);
#else
       before[s] = fence[s];
#if defined(NO_JUMP)
       fence[s] = fence[s] + 1;
#elif defined(SAME_JUMP)
       fence[s] = fence[s] + (doubt[s] -> JUMP : 1);
#else
       fence[s] = fence[s] + (doubt[s] -> JUMP * (1 + failovers) : 1); /* `failovers` is the WAL timeline */
#endif
       doubt[s] = false;
       term[s] = fence[s];
       printf("leader %d acquires the lease of scope %d, term %d\n", me, s, term[s]);
       assert(owner[s * TERMS + fence[s]] == 0);
       owner[s * TERMS + fence[s]] = me + 1;
       assert(fence[s] > shut[s]);
       shut[s] = fence[s];
       work = TRANSACTIONS;
#endif
       let_go(me)
     }
  :: atomic { !ended[me] -> let_go(me); goto idle }
  fi;
  goto idle;

transaction:
  do
  :: statements < STATEMENTS -> /* a write of one of the scopes that it leads, behind its check */
     statements++; passed_before = passed; wrote_before = wrote; /* SAVEPOINT */
     if :: term[0] > 0 -> s = 0 :: SCOPES > 1 && term[SCOPES - 1] > 0 -> s = SCOPES - 1 fi;
     if
     :: atomic { (passed & BIT(s)) && !ended[me] -> wrote = wrote | BIT(s); printf("leader %d writes scope %d with term %d, its check passed before\n", me, s, term[s]) }
     :: atomic { ended[me] -> goto idle }
#if defined(STALE_LOOK)
     :: atomic { !(passed & BIT(s)) && !ended[me] && s == 0 && old_row[me] != 0 && old_row[me] == term[0] ->
#elif defined(SEATS) && !defined(SNAPSHOT)
     :: atomic { !(passed & BIT(s)) && !ended[me] && s == 0 && (row & BIT(me)) && row_term[me] == term[0] ->
#endif
#if defined(STALE_LOOK) || (defined(SEATS) && !defined(SNAPSHOT))
          passed = passed | BIT(s); wrote = wrote | BIT(s); printf("leader %d passes the check of scope 0 by the row of its seat, and writes\n", me) }
#endif
     :: atomic { !(passed & BIT(s)) && !ended[me] ->
             if
             :: snapshot && !shown -> shown = true;
                i = 0; do :: i < SCOPES -> seen[i] = fence[i]; i++ :: else -> break od; i = 0; printf("leader %d takes its snapshot\n", me)
             :: else
             fi
#ifdef ONE_STATEMENT
             ; read = fence[s]; printf("leader %d asks for the lock of scope %d; its statement sees the fence at %d\n", me, s, read)
#endif
        }
#ifndef NO_LOCK
        if
        :: atomic { ended[me] -> goto idle }
        :: atomic { !ended[me] && turnstile[s] == 0 && exclusive[s] == 0 -> shared[s] = shared[s] | BIT(me) }
        :: atomic { !ended[me] && (turnstile[s] != 0 || exclusive[s] != 0) -> let_go(me); goto idle } /* TG006 */
        fi;
#endif
        if
        :: atomic { ended[me] -> goto idle }
#ifndef OLD_SNAPSHOT
        :: atomic { !ended[me] && snapshot && seen[s] != fence[s] -> let_go(me); goto idle } /* 40001 */
        :: atomic {
             !ended[me] && !(snapshot && seen[s] != fence[s]) ->
#else
        :: atomic {
             !ended[me] ->
#endif
             if
#if defined(ONE_STATEMENT)
             :: term[s] < read || doubt[s] -> let_go(me); goto idle /* TG001, TG004 */
#elif defined(OLD_SNAPSHOT)
             :: term[s] < (snapshot -> seen[s] : fence[s]) || doubt[s] -> let_go(me); goto idle
#else
             :: term[s] < fence[s] || doubt[s] -> let_go(me); goto idle
#endif
             :: else -> passed = passed | BIT(s); wrote = wrote | BIT(s); /* the write itself is seen by nobody before its COMMIT */
                printf("leader %d passes the check of scope %d with term %d and writes\n", me, s, term[s])
             fi
           }
        fi
     fi
  :: atomic { wrote != wrote_before && statements < STATEMENTS && !ended[me] -> /* ROLLBACK TO */
       i = 0;
       do
       :: i < SCOPES -> if :: (passed & BIT(i)) && !(passed_before & BIT(i)) -> shared[i] = shared[i] & ~BIT(me) :: else fi; i++
       :: else -> break
       od;
       i = 0;
       wrote = wrote_before;
       printf("leader %d rolls back to the savepoint\n", me);
#ifndef ROLLBACK_IGNORED
       passed = passed_before;
#endif
       passed_before = passed }
  :: atomic { wrote != 0 && !ended[me] -> /* COMMIT */
       printf("leader %d commits\n", me);
       i = 0;
       do
       :: i < SCOPES ->
          if
          :: wrote & BIT(i) ->
             assert(term[i] >= shut[i]);
             if :: shut[i] < term[i] -> shut[i] = term[i] :: else fi
          :: else
          fi;
          i++
       :: else -> break
       od;
       i = 0;
#ifdef SEATS
       if
       :: (wrote & 1) && !snapshot && (shared[0] & BIT(me)) && names < SITS -> /* it sits: the row commits with the check's transaction */
#ifdef LATE_SIT
          let_go(me); goto sits_late
#else
          names++; row = row | BIT(me); row_term[me] = term[0]; row_name[me] = names; printf("leader %d sits\n", me);
          if :: seat[me] = term[0]; seat_name[me] = names :: skip fi /* the answer is lost: a row too many */
#endif
       :: skip
       fi;
#endif
       let_go(me); goto idle }
  :: atomic { ended[me] -> goto idle } /* it is told when it says something: the connection is gone */
  :: atomic { !ended[me] -> let_go(me); goto idle } /* ROLLBACK, a crash */
  :: passed != 0 -> goto frozen
  od;

#ifdef SEATS
#ifdef LATE_SIT
sits_late:
  if
  :: atomic { ended[me] -> goto idle }
  :: atomic { !ended[me] -> names++; row = row | BIT(me); row_term[me] = term[0]; row_name[me] = names; seat[me] = term[0]; seat_name[me] = names; printf("leader %d sits\n", me); goto idle }
  fi;
#endif
seated: /* it has decided, and may stop here */
  if
  :: atomic { ended[me] -> goto idle }
  :: atomic { !ended[me] && seat[me] != 0 -> sent[me] = 1; under[me] = seat[me]; printf("leader %d sends a write under its seat, term %d\n", me, under[me]) }
#if defined(STAND_BUSY) || defined(MEMORY_LAST)
  :: atomic { !ended[me] && seat[me] == 0 -> goto idle }
#endif
#ifdef PREPARE_SEATED
  :: atomic { !ended[me] && prepared == 0 -> prepared = seat[me]; printf("leader %d prepares a transaction, term %d\n", me, prepared); goto idle }
#endif
  fi;
  if
  :: atomic { ended[me] -> goto idle }
  :: atomic { !ended[me] && sent[me] == 0 -> goto idle } /* ReadyForQuery */
  :: atomic { !ended[me] && sent[me] != 0 -> given_up[me] = true; busy[me] = false; printf("leader %d gives its connection up\n", me);
#ifndef STAND_LOST
       seat[me] = 0; seat_name[me] = 0
#endif
     }
     ended[me]; goto idle
  :: goto frozen
  fi;
#endif

frozen: /* with all that it holds */
  printf("leader %d freezes\n", me);
  forget();
end_frozen:
  false;

gone:
  forget()
}

/* A standby that has not got the last raise of a scope is promoted. Every session ends. */
proctype failing_over() {
  byte who;
end_waiting:
  do
  :: atomic {
       failovers < FAILOVERS ->
       failovers++; printf("failover\n");
       who = 0;
       do :: who < LEADERS -> over(who); who++ :: else -> break od;
#if defined(SEATS) && defined(RENUMBER)
       names = 0;
#endif
       i = 0;
       do
       :: i < SCOPES ->
          if :: atomic { fence[i] != before[i] -> fence[i] = before[i]; printf("the fence of scope %d is back at %d\n", i, fence[i]) } :: skip fi;
#ifndef NO_DOUBT
          doubt[i] = true;
#endif
          i++
       :: else -> break
       od;
       i = 0; who = 0
     }
  od
}

init {
  atomic {
    byte n = 0;
    do
    :: n < LEADERS -> run leader(n);
#ifdef SEATS
       run server(n); run keeper(n);
#endif
       n++
    :: else -> break
    od;
    if :: FAILOVERS > 0 -> run failing_over() :: else fi
  }
}
