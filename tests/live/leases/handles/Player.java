// The Java client as the behaviour suite drives it (tests/live/leases/handles_test.py; the protocol is in handles/lab.py).
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeoutException;
import termgate.Termgate;
import termgate.Watch;

public final class Player {
  private static final Map<String, Termgate.Lease> LEASES = new ConcurrentHashMap<>();
  private static final Map<String, Thread> LOOPS = new ConcurrentHashMap<>();
  private static final Map<String, Boolean> FAILS = new ConcurrentHashMap<>();

  private static synchronized void say(Object... words) {
    StringBuilder line = new StringBuilder();
    for (Object word : words) line.append(line.length() == 0 ? "" : "\t").append(String.valueOf(word).replace('\t', ' ').replace('\n', ' '));
    byte[] bytes = line.append('\n').toString().getBytes(StandardCharsets.UTF_8);
    System.out.write(bytes, 0, bytes.length);
    System.out.flush();
  }

  private static Termgate client(String[] words) {
    return new Termgate(() -> DriverManager.getConnection(words[2]), words[3]);
  }

  private static String given(String word) { return word.isEmpty() ? null : word; }

  private static void hold(String[] words) throws Exception {
    Duration ttl = Duration.ofMillis(Long.parseLong(words[5])), wait = Duration.ofMillis(Long.parseLong(words[6]));
    try {
      Termgate.Lease lease = client(words).hold(words[4], ttl, wait, given(words[7]), given(words[8]));
      LEASES.put(words[1], lease);
      say(words[1], "held", lease.term(), lease.owner());
      lease.askedToLeave().thenRun(() -> say(words[1], "asked"));
      lease.lost().thenRun(() -> say(words[1], "lost"));
    } catch (TimeoutException error) {
      say(words[1], "blocked", error.getMessage());
    }
  }

  private static void write(String[] words) throws SQLException {
    try (Connection connection = DriverManager.getConnection(words[3]); Statement statement = connection.createStatement()) {
      String insert = "INSERT INTO written VALUES (" + words[4] + ")";
      connection.setAutoCommit(false);
      LEASES.get(words[2]).declare(connection);
      statement.executeUpdate(insert);
      connection.commit();
      if (words[5].equals("twice")) statement.executeUpdate(insert);
      connection.commit();
    }
    say(words[1], "written");
  }

  private static void lead(String[] words) throws Exception {
    LOOPS.put(words[1], Thread.currentThread());
    try {
      client(words).lead(words[4], Duration.ofMillis(Long.parseLong(words[5])), lease -> {
        say(words[1], "leading", lease.term());
        try {
          while (!lease.lost().isDone() && !lease.askedToLeave().isDone()) {
            if (FAILS.containsKey(words[1])) throw new IllegalStateException("the work failed");
            Thread.sleep(10);
          }
        } finally {
          say(words[1], "stopped");
        }
        return null;
      });
    } catch (InterruptedException stopped) {
      say(words[1], "done");
    }
  }

  private static void watch(String[] words) throws SQLException, TimeoutException {
    LOOPS.put(words[1], Thread.currentThread());
    try (Watch watch = client(words).watch(words[4], Duration.ofMillis(Long.parseLong(words[5])))) {
      while (true) {
        Watch.Leader leader = watch.next().orElse(null);
        if (leader == null) say(words[1], "now");
        else say(words[1], "now", leader.owner(), leader.term(), Objects.toString(leader.endpoint(), ""));
      }
    } catch (InterruptedException stopped) {
      say(words[1], "done");
    }
  }

  private static void play(String[] words) {
    try {
      switch (words[0]) {
        case "hold": hold(words); break;
        case "held": say(words[1], LEASES.get(words[2]).isHeld()); break;
        case "release": say(words[1], "released", LEASES.get(words[2]).release()); break;
        case "write": write(words); break;
        case "lead": lead(words); break;
        case "watch": watch(words); break;
        case "stop": LOOPS.get(words[2]).interrupt(); say(words[1], "ok"); break;
        case "fail": FAILS.put(words[2], true); say(words[1], "ok"); break;
        default: throw new IllegalArgumentException(words[0]);
      }
    } catch (SQLException error) {
      say(words[1], "error", error.getSQLState(), error.getMessage());
    } catch (Exception error) {
      say(words[1], "error", error.getClass().getSimpleName(), error.getMessage());
    }
  }

  public static void main(String[] arguments) throws Exception {
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line; (line = input.readLine()) != null && !line.equals("quit"); ) {
      String[] words = line.split("\t", -1);
      for (int at = 0; at < words.length; ++at) words[at] = URLDecoder.decode(words[at], StandardCharsets.UTF_8);
      Thread thread = new Thread(() -> play(words));
      thread.setDaemon(true);
      thread.start();
    }
    for (Termgate.Lease lease : LEASES.values()) lease.close(); // what the end of each block does
    say("player", "gone");
  }
}
