// What Java programs do through JDBC, printed so that two runs can be compared. Where to connect: libpq's environment. Run as a single source file.
import java.io.*;
import java.sql.*;
import java.util.*;
import org.postgresql.PGConnection;
import org.postgresql.copy.CopyManager;

public class Jdbc {
  interface Action { Object run() throws Exception; }

  static void tell(String name, Action action) {
    try {
      System.out.println(name + ": " + action.run());
    } catch (BatchUpdateException error) {
      System.out.println(name + ": batch " + Arrays.toString(error.getUpdateCounts()) + " " + error.getSQLState() + " " + error.getMessage().split("  Call getNextException")[0]);
    } catch (SQLException error) {
      System.out.println(name + ": " + error.getClass().getSimpleName() + " " + error.getSQLState() + " " + error.getMessage());
    } catch (Exception error) {
      System.out.println(name + ": " + error);
    }
  }

  static Connection open(Map<String, String> more) throws SQLException {
    Properties properties = new Properties();
    properties.setProperty("user", System.getenv("PGUSER"));
    properties.setProperty("options", System.getenv("PGOPTIONS"));
    properties.putAll(more);
    return DriverManager.getConnection("jdbc:postgresql://" + System.getenv("PGHOST") + ":" + System.getenv("PGPORT") + "/" + System.getenv("PGDATABASE"), properties);
  }

  static String rows(ResultSet set) throws SQLException {
    StringBuilder text = new StringBuilder();
    ResultSetMetaData meta = set.getMetaData();
    while (set.next()) {
      for (int i = 1; i <= meta.getColumnCount(); i++) text.append(i > 1 ? "," : "").append(set.getString(i));
      text.append(';');
    }
    return text.toString();
  }

  static void everything(Connection c, String mode) throws Exception {
    System.out.println("== " + mode);
    boolean simple = mode.equals("simple");
    try (Statement s = c.createStatement()) {
      s.execute("drop table if exists jd");
      s.execute("create table jd(i int primary key, v text, n numeric, at timestamptz, b bytea)");
      tell("autocommit insert", () -> s.executeUpdate("insert into jd (i, v) values (1, 'a')"));
      tell("duplicate", () -> s.executeUpdate("insert into jd (i, v) values (1, 'a')"));
      tell("two statements", () -> { s.execute("insert into jd (i) values (2); select 5"); int n = s.getUpdateCount(); s.getMoreResults(); return n + " " + rows(s.getResultSet()); });
      tell("returning", () -> rows(s.executeQuery("insert into jd (i) values (3) returning i, v")));
      tell("generated keys", () -> { s.executeUpdate("insert into jd (i) values (4)", Statement.RETURN_GENERATED_KEYS); return rows(s.getGeneratedKeys()); });
    }
    // After five runs the driver prepares on the server.
    try (PreparedStatement p = c.prepareStatement("insert into jd (i, v, n, b) values (?, ?, ?, ?)")) {
      for (int i = 0; i < 12; i++) {
        int key = 10 + i;
        tell("prepared " + i, () -> { p.setInt(1, key); p.setString(2, "v" + key); p.setBigDecimal(3, new java.math.BigDecimal("1.50")); p.setBytes(4, new byte[] {0, 1, (byte) 255}); return p.executeUpdate(); });
      }
      tell("prepared duplicate", () -> { p.setInt(1, 10); return p.executeUpdate(); });
    }
    try (PreparedStatement p = c.prepareStatement("insert into jd (i, v) values (?, ?)")) {
      tell("batch", () -> { for (int i = 0; i < 500; i++) { p.setInt(1, 1000 + i); p.setString(2, "b"); p.addBatch(); } int sum = 0; for (int n : p.executeBatch()) sum += n; return sum; });
      tell("batch that fails", () -> { for (int i : new int[] {2000, 2001, 2000, 2002}) { p.setInt(1, i); p.setString(2, "b"); p.addBatch(); } return Arrays.toString(p.executeBatch()); });
      tell("what it left", () -> { try (Statement s = c.createStatement()) { return rows(s.executeQuery("select count(*) from jd where i between 2000 and 2002")); } });
    }
    c.setAutoCommit(false);
    try (Statement s = c.createStatement()) {
      s.setFetchSize(50);
      tell("fetch size", () -> { int n = 0; try (ResultSet set = s.executeQuery("select i from jd order by i")) { while (set.next()) n += set.getInt(1); } return n; });
      tell("write behind a cursor", () -> { try (ResultSet set = s.executeQuery("select i from jd order by i")) { set.next(); try (Statement t = c.createStatement()) { t.executeUpdate("insert into jd (i) values (3000)"); } int n = 1; while (set.next()) n++; return n; } });
      c.commit();
      s.setFetchSize(0);
      tell("savepoint", () -> { s.executeUpdate("insert into jd (i) values (3001)"); Savepoint p = c.setSavepoint("sp"); s.executeUpdate("insert into jd (i) values (3002)"); c.rollback(p); s.executeUpdate("insert into jd (i) values (3003)"); c.commit(); return rows(s.executeQuery("select i from jd where i between 3001 and 3003 order by i")); });
      c.commit();
      tell("failing", () -> s.executeUpdate("insert into jd (i) values (1)"));
      tell("failed", () -> rows(s.executeQuery("select 1")));
      c.rollback();
      c.setReadOnly(true);
      tell("read only reads", () -> rows(s.executeQuery("select count(*) from jd")));
      tell("read only writes", () -> s.executeUpdate("insert into jd (i) values (3005)"));
      c.rollback();
      c.setReadOnly(false);
      tell("writes again", () -> { int n = s.executeUpdate("insert into jd (i) values (3005)"); c.commit(); return n; });
    }
    c.setAutoCommit(true);
    c.setReadOnly(true);
    tell("read only in autocommit", () -> { try (Statement s = c.createStatement()) { return s.executeUpdate("insert into jd (i) values (3006)"); } });
    c.setReadOnly(false);
    try (Statement s = c.createStatement()) {
      s.execute("create or replace function jd_f(int) returns int language plpgsql as 'begin insert into jd (i) values ($1); return $1 + 1; end'");
      s.execute("create or replace procedure jd_p(inout a int) language plpgsql as 'begin insert into jd (i) values (a); a := a * 2; end'");
    }
    tell("function call", () -> { try (CallableStatement call = c.prepareCall("{? = call jd_f(?)}")) { call.registerOutParameter(1, Types.INTEGER); call.setInt(2, 4000); call.execute(); return call.getInt(1); } });
    tell("procedure call", () -> { try (CallableStatement call = c.prepareCall("call jd_p(?)")) { call.registerOutParameter(1, Types.INTEGER); call.setInt(1, 4001); call.execute(); return call.getInt(1); } });
    if (!simple) {
      CopyManager copies = c.unwrap(PGConnection.class).getCopyAPI();
      tell("copy in", () -> { StringBuilder text = new StringBuilder(); for (int i = 5000; i < 8000; i++) text.append(i).append("\tcopied\n"); return copies.copyIn("copy jd (i, v) from stdin", new StringReader(text.toString())); });
      tell("copy in that fails", () -> copies.copyIn("copy jd (i, v) from stdin", new StringReader("9000\ta\n5000\tb\n")));
      tell("copy out", () -> { StringWriter out = new StringWriter(); long n = copies.copyOut("copy (select i, v from jd order by i) to stdout", out); return n + " " + out.toString().hashCode(); });
    }
    DatabaseMetaData meta = c.getMetaData();
    tell("columns", () -> rows(meta.getColumns(null, "public", "jd", null)));
    tell("parameter metadata", () -> { try (PreparedStatement p = c.prepareStatement("insert into jd (i, v) values (?, ?) returning i")) { return p.getParameterMetaData().getParameterTypeName(1) + " " + p.getMetaData().getColumnTypeName(1); } });
    tell("updatable", () -> { try (Statement s = c.createStatement(ResultSet.TYPE_SCROLL_SENSITIVE, ResultSet.CONCUR_UPDATABLE)) { ResultSet set = s.executeQuery("select i, v from jd where i = 1"); set.next(); set.updateString(2, "updated"); set.updateRow(); set.moveToInsertRow(); set.updateInt(1, 9500); set.insertRow(); return rows(c.createStatement().executeQuery("select i, v from jd where i in (1, 9500) order by i")); } });
    tell("timeout", () -> { try (Statement s = c.createStatement()) { s.setQueryTimeout(1); return rows(s.executeQuery("select pg_sleep(20)")); } });
    tell("notification", () -> { try (Statement s = c.createStatement()) { s.execute("listen jd"); s.execute("notify jd, 'hey'"); var all = c.unwrap(PGConnection.class).getNotifications(2000); return all[0].getName() + all[0].getParameter() + (all[0].getPID() == c.unwrap(PGConnection.class).getBackendPID()); } });
    tell("valid", () -> c.isValid(5));
    tell("end", () -> { try (Statement s = c.createStatement()) { return rows(s.executeQuery("select count(*), sum(i) from jd")); } });
    try (Statement s = c.createStatement()) { s.execute("drop function jd_f; drop procedure jd_p; drop table jd"); }
  }

  public static void main(String[] words) throws Exception {
    try (Connection c = open(Map.of())) { everything(c, "extended"); }
    try (Connection c = open(Map.of("preferQueryMode", "simple"))) { everything(c, "simple"); }
    try (Connection c = open(Map.of("prepareThreshold", "1", "autosave", "always", "reWriteBatchedInserts", "true", "defaultRowFetchSize", "20"))) { everything(c, "autosave, rewritten batches, prepared at once"); }
  }
}
