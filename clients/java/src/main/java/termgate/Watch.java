package termgate;

import java.sql.SQLException;
import java.time.Duration;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.TimeoutException;

/**
 * Who leads a scope, and each change, from {@link Termgate#watch}. It takes no part in the election. One thread uses it.
 * <pre>{@code
 * try (Watch watch = leases.watch("billing", Duration.ofSeconds(1))) {
 *   while (true) watch.next().ifPresentOrElse(leader -> routeTo(leader.endpoint()), this::routeToNobody);
 * }
 * }</pre>
 * It looks every interval, when the lease can end, and ten times a second while nobody leads; what comes and goes between two looks is not
 * seen. What it reports may be over by the time that you read it, so never write because of it.
 */
public final class Watch implements AutoCloseable {
  /** Who leads. */
  public static final class Leader {
    private final String owner, endpoint;
    private final long term;

    private Leader(Map<String, Object> row) {
      owner = (String) row.get("owner_id");
      endpoint = (String) row.get("endpoint");
      term = Termgate.number(row.get("term"));
    }

    public String owner() { return owner; }
    public long term() { return term; }
    /** Where the leader can be reached; null where it did not say. */
    public String endpoint() { return endpoint; }

    /** The same owner under the same term. */
    @Override
    public boolean equals(Object other) {
      return other instanceof Leader && owner.equals(((Leader) other).owner) && term == ((Leader) other).term;
    }

    @Override
    public int hashCode() { return Objects.hash(owner, term); }
  }

  private final Termgate leases;
  private final String scope;
  private final long interval;
  private Termgate.Line line;
  private Optional<Leader> last;
  private long pause;

  Watch(Termgate leases, String scope, Duration interval) {
    if (interval.toMillis() < 10 || interval.compareTo(Duration.ofDays(1)) > 0) {
      throw new IllegalArgumentException("TG005 the interval is " + interval + "; it must be 10 ms to 1 day");
    }
    this.leases = leases;
    this.scope = scope;
    this.interval = interval.toMillis();
    line = leases.new Line();
  }

  /**
   * The first time who leads, and then waits for the next change of owner or term. Empty: nobody leads. An interrupt ends the wait.
   *
   * @throws SQLException the driver's. That is no change of leader: the next call looks again
   * @throws TimeoutException no answer came for 10 s; the next call looks again, on a new connection
   */
  public Optional<Leader> next() throws SQLException, TimeoutException, InterruptedException {
    while (true) {
      Thread.sleep(pause);
      pause = interval; // after an error too
      Map<String, Object> row = look();
      long left = row.isEmpty() ? 0 : Termgate.number(row.get("remaining_ms"));
      Optional<Leader> leader = left > 0 ? Optional.of(new Leader(row)) : Optional.empty();
      pause = Math.min(interval, left > 0 ? left + 1 : 100);
      if (leader.equals(last)) continue;
      last = leader;
      return leader;
    }
  }

  private Map<String, Object> look() throws SQLException, TimeoutException, InterruptedException {
    try {
      return Termgate.answer(line.call("lease", scope), 10_000_000_000L);
    } catch (TimeoutException error) {
      line.close();
      line = leases.new Line();
      throw new TimeoutException("the database did not answer for the lease of scope \"" + scope + "\"");
    }
  }

  @Override
  public void close() { line.close(); }
}
