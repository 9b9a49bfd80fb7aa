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

/* A raise in the way of which sessions stand ends them, when the grace is over. Those who raise are left alone. */
inline evict(scope) {
  do
  :: other < LEADERS ->
     if
     :: shared[scope] & BIT(other) ->
#ifdef BLIND_EVICTION
        shared[scope] = shared[scope] & ~BIT(other); printf("the raise of scope %d passes over leader %d\n", scope, other)
#else
        ended[other] = true; let_go(other); printf("the raise of scope %d ends the session of leader %d\n", scope, other)
#endif
     :: else
     fi;
     other++
  :: else -> break
  od;
  other = 0
}

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
    ended[me] = false } /* a new session */
  if
  :: atomic { acquisitions < ACQUISITIONS && acquisitions >= me -> acquisitions++ } ; goto acquire /* leaders are alike: the first to lead is number 0 */
  :: atomic { work > 0 -> work-- } ; goto transaction
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
  if
  :: atomic { ended[me] -> goto idle }
  :: atomic { !ended[me] && turnstile[s] == 0 -> turnstile[s] = me + 1 }
  fi;
  if :: skip :: atomic { let_go(me); goto idle } fi; /* its process crashes: the server rolls it back */
  do
  :: atomic { ended[me] -> goto idle }
  :: atomic { !ended[me] && shared[s] == 0 && exclusive[s] == 0 -> exclusive[s] = me + 1; break }
#ifndef NO_EVICTION
  :: atomic { !ended[me] && shared[s] != 0 -> evict(s) }
#endif
  od;
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
       let_go(me); goto idle }
  :: atomic { ended[me] -> goto idle } /* it is told when it says something: the connection is gone */
  :: atomic { !ended[me] -> let_go(me); goto idle } /* ROLLBACK, a crash */
  :: passed != 0 -> goto frozen
  od;

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
       do :: who < LEADERS -> ended[who] = true; let_go(who); who++ :: else -> break od;
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
    do :: n < LEADERS -> run leader(n); n++ :: else -> break od;
    if :: FAILOVERS > 0 -> run failing_over() :: else fi
  }
}
