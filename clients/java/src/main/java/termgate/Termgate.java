package termgate;

import static java.lang.System.Logger.Level.WARNING;
import static java.lang.System.nanoTime;

import java.lang.management.ManagementFactory;
import java.sql.*;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;

/**
 * Holds leases of Termgate, so that a program writes under their terms. Any thread may call it.
 * <pre>{@code
 * Termgate leases = new Termgate(dataSource::getConnection, "postgresql");  // each held lease has a connection of its own
 * try (Termgate.Lease lease = leases.hold("billing", Duration.ofSeconds(10), Duration.ofSeconds(30))) {
 *   while (!lease.lost().isDone()) {
 *     connection.setAutoCommit(false);
 *     lease.declare(connection);                                              // TG001: another leads by now
 *     statement.executeUpdate("UPDATE accounts SET balance = balance - 30 WHERE id = 42");
 *     connection.commit();
 *   }
 * }
 * }</pre>
 * The lease is renewed in the background. {@code lost()} is completed a margin (a fifth of the TTL) before the lease can be another's,
 * counted from when the last renewal that succeeded was sent, by System.nanoTime(). The database refuses what was written too late.
 * {@code askedToLeave()} is completed by the renewal after somebody has asked for the lease (termgate lease hand-over).
 * {@code watch()} tells others who leads.
 */
public final class Termgate {
  private static final System.Logger LOG = System.getLogger("termgate");
  private static final String PROCESS = ManagementFactory.getRuntimeMXBean().getName().replaceFirst("(.*)@(.*)", "$2:$1");
  private final Callable<Connection> connect;
  private final Map<String, String> texts = new HashMap<>();

  public Termgate(Callable<Connection> connect, String database) { this(connect, database, "termgate"); }
  /** Layer 1 in a schema of a database: postgresql, sqlserver or sqlite. */
  public Termgate(Callable<Connection> connect, String database, String schema) {
    String quoted = database.equals("sqlserver") ? "[" + schema.replace("]", "]]") + "]" : '"' + schema.replace("\"", "\"\"") + '"';
    Statements.ALL.get(database).forEach((name, text) -> texts.put(name, text.replaceAll("\\$\\d", "?").replace("@schema@", quoted)));
    this.connect = connect;
  }

  public Lease hold(String scope, Duration ttl, Duration wait) throws SQLException, TimeoutException, InterruptedException {
    return hold(scope, ttl, wait, null, null);
  }
  /**
   * Acquires the lease and keeps it. owner: null for a name of its own; endpoint: where the holder can be reached, or null.
   *
   * @throws TimeoutException another has held it for all of {@code wait} (zero: one try), or the database did not answer
   */
  public Lease hold(String scope, Duration ttl, Duration wait, String owner, String endpoint)
      throws SQLException, TimeoutException, InterruptedException {
    if (ttl.toMillis() < 100 || ttl.compareTo(Duration.ofDays(1)) > 0) {
      throw new IllegalArgumentException("TG005 the TTL is " + ttl + "; it must be 100 ms to 1 day");
    }
    if (owner == null) owner = PROCESS + ":" + UUID.randomUUID().toString().substring(0, 8);
    Line line = new Line();
    try {
      return acquire(line, scope, ttl, nanoTime() + wait.toNanos(), owner, endpoint);
    } catch (Exception error) {
      line.close();
      throw error;
    }
  }

  private Lease acquire(Line line, String scope, Duration ttl, long giveUp, String owner, String endpoint)
      throws SQLException, TimeoutException, InterruptedException {
    long heldFor = 0;
    for (long step = 10; ; step = Math.min(2 * step, 500)) {
      long patience = Math.max(giveUp - nanoTime(), 0) + ttl.toNanos();
      if (heldFor <= 0) {
        long sent = nanoTime();
        Map<String, Object> row = answer(line.call("acquire_lease", scope, owner, ttl.toMillis(), endpoint, null), patience);
        if (yes(row.get("acquired"))) {
          Lease lease = new Lease(line, scope, owner, number(row.get("term")), ttl, sent);
          if (lease.isHeld()) return lease;
          throw new TimeoutException("the lease of scope \"" + scope + "\" came too late: a call takes as long as its TTL of " + ttl);
        }
      }
      Map<String, Object> row = answer(line.call("lease", scope), patience); // only a look: it locks nothing
      heldFor = row.isEmpty() ? 0 : Math.max(number(row.get("remaining_ms")), 0);
      long left = TimeUnit.NANOSECONDS.toMillis(giveUp - nanoTime());
      if (left <= 0) throw new TimeoutException("TG006 the lease of scope \"" + scope + "\" is held by another");
      Thread.sleep(Math.min(between(step / 2, step * 3 / 2), Math.min(heldFor + between(1, 10), left)));
    }
  }

  /** What a leader does; it returns or throws when {@code lost()} or {@code askedToLeave()} of its lease is done. */
  public interface Work<T> {
    T run(Lease lease) throws Exception;
  }

  /**
   * Runs the work each time this process has become the leader, until it returns while the lease is held and nobody asks for it. An
   * interrupt ends the loop, and the work as its own blocking calls see to it. An error of the work after the loss of its lease is logged.
   */
  public <T> T lead(String scope, Duration ttl, Work<T> work) throws Exception {
    for (String owner = null; ; ) {
      Lease lease;
      try {
        lease = hold(scope, ttl, Duration.ofHours(1), owner, null);
        owner = lease.owner; // whoever is asked to leave has no part in the next election
      } catch (SQLException | TimeoutException error) {
        LOG.log(WARNING, "no lease of scope \"" + scope + "\": " + error.getMessage());
        Thread.sleep(between(250, 1000));
        continue;
      }
      try {
        T result = work.run(lease);
        if (lease.isHeld() && !lease.asked.isDone()) return result;
      } catch (Exception error) {
        if (lease.isHeld() || error instanceof InterruptedException) throw error;
        LOG.log(WARNING, "the work under term " + lease.term + " of scope \"" + scope + "\" ended after its lease: " + error);
      } finally {
        lease.close();
      }
    }
  }

  /** Who leads a scope, and each change. It has a connection of its own and looks every interval, 10 ms to 1 day. */
  public Watch watch(String scope, Duration interval) { return new Watch(this, scope, interval); }

  private Map<String, Object> row(Connection connection, String name, Object... values) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(texts.get(name))) {
      for (int at = 0; at < values.length; ++at) statement.setObject(at + 1, values[at]);
      boolean rows = statement.execute();
      while (!rows && statement.getUpdateCount() != -1) rows = statement.getMoreResults();
      Map<String, Object> row = new HashMap<>();
      ResultSet results = statement.getResultSet();
      for (int at = results.next() ? results.getMetaData().getColumnCount() : 0; at > 0; --at)
        row.put(results.getMetaData().getColumnLabel(at), results.getObject(at));
      return row;
    }
  }

  static Map<String, Object> answer(CompletableFuture<Map<String, Object>> call, long nanoseconds)
      throws SQLException, TimeoutException, InterruptedException {
    try {
      return call.get(Math.max(nanoseconds, 0), TimeUnit.NANOSECONDS);
    } catch (ExecutionException error) {
      throw error.getCause() instanceof SQLException ? (SQLException) error.getCause() : new SQLException(error.getCause());
    }
  }

  /** A connection with a thread. A call that hangs hangs there; whoever waits for its answer gives up when he wants. */
  final class Line {
    private final ExecutorService thread = Executors.newSingleThreadExecutor(Termgate::daemon);
    private Connection connection;

    CompletableFuture<Map<String, Object>> call(String name, Object... values) {
      CompletableFuture<Map<String, Object>> answer = new CompletableFuture<>();
      thread.execute(() -> {
        try {
          if (connection == null) connection = connect.call();
          connection.setAutoCommit(true);
          answer.complete(row(connection, name, values));
        } catch (Exception error) {
          drop();
          answer.completeExceptionally(error);
        }
      });
      return answer;
    }

    /** After the calls that were made before. */
    void close() {
      if (!thread.isShutdown()) thread.execute(this::drop);
      thread.shutdown();
    }

    private void drop() {
      try (Connection gone = connection) {
        connection = null;
      } catch (SQLException error) {
        LOG.log(WARNING, "a connection did not close: " + error.getMessage());
      }
    }
  }

  /** A lease that is held, from hold(). The end of its block gives it back. Any thread may use it. */
  public final class Lease implements AutoCloseable {
    private final CompletableFuture<Void> lost = new CompletableFuture<>(), asked = new CompletableFuture<>();
    private final String scope, owner;
    private final long term, ttl;
    private volatile Line line;
    private volatile long until, due;

    private Lease(Line line, String scope, String owner, long term, Duration ttl, long sent) {
      this.line = line;
      this.scope = scope;
      this.owner = owner;
      this.term = term;
      this.ttl = ttl.toNanos();
      until = sent;
      renewedFrom(sent);
      daemon(this::keep).start();
    }

    public String scope() { return scope; }
    public String owner() { return owner; }
    public long term() { return term; }
    /** Completed when the lease can no longer be trusted, or was given back. Dependents run on the lease's thread and return at once. */
    public CompletableFuture<Void> lost() { return lost; }
    /** Completed when somebody asks for the lease, which is held as before for a while. Dependents run elsewhere. */
    public CompletableFuture<Void> askedToLeave() { return asked; }
    /** Whether the lease may be trusted at this moment, by the clock. */
    public synchronized boolean isHeld() { return !lost.isDone() && nanoTime() - until < 0; }
    /** First in a transaction that writes: checks the term and declares it. */
    public void declare(Connection transaction) throws SQLException { row(transaction, "check_term", scope, term); }

    /** Gives the lease back, so that another can have it at once. False: it was no longer held. */
    public boolean release() throws SQLException, InterruptedException {
      boolean held = isHeld() & lost.complete(null); // of two that release it at once, one does
      synchronized (this) {
        notifyAll();
      }
      try {
        for (int attempt = 0; held && nanoTime() - until < 0; ++attempt) {
          try {
            return yes(answer(line.call("release_lease", scope, owner, term), until - nanoTime()).get("released"));
          } catch (SQLException error) {
            if (attempt == 4) throw error;
          }
          Thread.sleep(10L << attempt);
        }
      } catch (TimeoutException error) { // it ends by itself
      } finally {
        line.close();
      }
      return false;
    }

    /** release(); where that fails, the lease ends by itself. */
    @Override
    public void close() {
      try {
        release();
      } catch (SQLException error) {
        LOG.log(WARNING, "the lease of scope \"" + scope + "\" was not given back: " + error.getMessage());
      } catch (InterruptedException error) {
        Thread.currentThread().interrupt();
      }
    }

    /** sent: the moment from which the database counts at the earliest. */
    private void renewedFrom(long sent) {
      until = sent + ttl - ttl / 5 - until > 0 ? sent + ttl - ttl / 5 : until;
      due = sent + between(ttl / 4, ttl / 3); // holders that were elected together do not renew together
    }

    /** The lease's thread: sends the renewals and watches the clock, whatever a renewal does. */
    private void keep() {
      try {
        synchronized (this) {
          CompletableFuture<Void> pending = CompletableFuture.completedFuture(null);
          for (long now = nanoTime(); isHeld(); now = nanoTime()) {
            if (now - due >= 0) {
              if (!pending.isDone()) { // its connection may be dead, so the next try has another; the answer counts if it still comes
                line.close();
                line = new Line();
              }
              long sent = now;
              due = now + ttl / 4; // unless an answer comes
              pending = line.call("renew_lease", scope, owner, term, ttl / 1_000_000).handle((row, error) -> answered(sent, row, error));
            }
            wait(Math.max(Math.min(due - now, until - now), 0) / 1_000_000 + 1);
          }
        }
      } catch (InterruptedException error) { // nobody has this thread
      } finally {
        lost.complete(null);
      }
    }

    private synchronized Void answered(long sent, Map<String, Object> row, Throwable error) {
      if (error != null) {
        LOG.log(WARNING, "the lease of scope \"" + scope + "\" was not renewed: " + error.getMessage());
        due = nanoTime() + between(ttl * 3 / 80, ttl / 16);
      } else if (!yes(row.get("renewed"))) {
        until = nanoTime();
      } else if (isHeld()) {
        renewedFrom(sent);
      }
      notifyAll();
      if (error == null && row.get("leave_in_ms") != null) asked.completeAsync(() -> null);
      return null;
    }
  }

  private static Thread daemon(Runnable body) {
    Thread thread = Executors.defaultThreadFactory().newThread(body);
    thread.setDaemon(true);
    return thread;
  }

  private static boolean yes(Object value) { return value instanceof Boolean ? (Boolean) value : number(value) == 1; }
  static long number(Object value) { return ((Number) value).longValue(); }
  private static long between(long low, long high) { return ThreadLocalRandom.current().nextLong(low, high); }
}
