// What a program on jTDS does (TDS 7.1: no headers, no announced transactions), one line for each result.
import java.math.BigDecimal;
import java.sql.*;

public class TdsJtds {
  static void print(String name, Object value) { System.out.println(name + ": " + value); }
  static String shown(SQLException error) { return "error " + error.getErrorCode() + " " + error.getSQLState() + " " + error.getMessage(); }

  interface Step { Object run() throws SQLException; }
  static void step(String name, Step step) {
    try {
      print(name, step.run());
    } catch (SQLException error) { print(name, shown(error)); }
  }

  static String rows(ResultSet rows) throws SQLException {
    StringBuilder out = new StringBuilder();
    int columns = rows.getMetaData().getColumnCount();
    while (rows.next()) {
      out.append("[");
      for (int i = 1; i <= columns; i++) out.append(i > 1 ? ", " : "").append(rows.getString(i));
      out.append("]");
    }
    return out.toString();
  }

  public static void main(String[] none) throws Exception {
    var env = System.getenv();
    Class.forName("net.sourceforge.jtds.jdbc.Driver");
    var properties = new java.util.Properties();
    properties.put("user", env.get("USERNAME"));
    properties.put("password", env.get("PASSWORD"));
    properties.put("APPNAME", env.get("APPLICATION"));
    properties.put("ssl", env.getOrDefault("JTDS_SSL", "request"));
    String url = "jdbc:jtds:sqlserver://" + env.get("HOST") + ":" + env.get("PORT") + "/" + env.get("DATABASE");
    try (Connection c = DriverManager.getConnection(url, properties); Statement s = c.createStatement()) {
      step("create", () -> s.executeUpdate("CREATE TABLE dbo.jtds_t (id int NOT NULL PRIMARY KEY, name nvarchar(100), amount decimal(12, 2), data varbinary(100), note nvarchar(max))"));
      step("insert", () -> {
        try (PreparedStatement p = c.prepareStatement("INSERT INTO dbo.jtds_t (id, name, amount, data) VALUES (?, ?, ?, ?)")) {
          p.setInt(1, 1); p.setString(2, "\u00dcn\u00efc\u00f8d\u00e9"); p.setBigDecimal(3, new BigDecimal("12.50")); p.setBytes(4, new byte[] {0, 1, -2, -1});
          int count = p.executeUpdate();
          p.setInt(1, 2); p.setNull(2, Types.NVARCHAR); p.setNull(3, Types.DECIMAL); p.setNull(4, Types.VARBINARY);
          return count + p.executeUpdate();
        }
      });
      step("insert twice", () -> s.executeUpdate("INSERT INTO dbo.jtds_t (id) VALUES (1)"));
      step("select", () -> rows(s.executeQuery("SELECT id, name, amount, data FROM dbo.jtds_t ORDER BY id")));
      step("batch", () -> {
        try (PreparedStatement p = c.prepareStatement("INSERT INTO dbo.jtds_t (id, name) VALUES (?, ?)")) {
          for (int i = 10; i < 30; i++) { p.setInt(1, i); p.setString(2, "row " + i); p.addBatch(); }
          int sum = 0;
          for (int one : p.executeBatch()) sum += one;
          return sum;
        }
      });
      step("two results", () -> {
        StringBuilder out = new StringBuilder();
        boolean more = s.execute("SELECT 1 AS a SELECT COUNT(*) FROM dbo.jtds_t UPDATE dbo.jtds_t SET amount = 1 WHERE id >= 10");
        while (more || s.getUpdateCount() >= 0) {
          out.append(more ? rows(s.getResultSet()) : "<" + s.getUpdateCount() + ">");
          more = s.getMoreResults();
        }
        return out;
      });
      step("error", () -> rows(s.executeQuery("SELECT * FROM dbo.no_such_table")));
      step("large", () -> {
        try (PreparedStatement p = c.prepareStatement("UPDATE dbo.jtds_t SET note = ? WHERE id = 1")) {
          p.setString(1, "ab".repeat(60000));
          return p.executeUpdate() + " " + rows(s.executeQuery("SELECT DATALENGTH(note) FROM dbo.jtds_t WHERE id = 1"));
        }
      });
      c.setAutoCommit(false);
      step("in a transaction", () -> s.executeUpdate("DELETE FROM dbo.jtds_t WHERE id >= 20"));
      step("rollback", () -> { c.rollback(); return rows(s.executeQuery("SELECT COUNT(*) FROM dbo.jtds_t")); });
      step("savepoint", () -> {
        s.executeUpdate("DELETE FROM dbo.jtds_t WHERE id = 29");
        Savepoint point = c.setSavepoint();
        s.executeUpdate("DELETE FROM dbo.jtds_t");
        c.rollback(point);
        c.commit();
        return rows(s.executeQuery("SELECT COUNT(*) FROM dbo.jtds_t"));
      });
      c.commit();
      c.setAutoCommit(true);
      step("procedure", () -> {
        s.executeUpdate("CREATE PROCEDURE dbo.jtds_p @a int, @b int OUTPUT AS BEGIN SET @b = @a * 2; RETURN 7 END");
        try (CallableStatement p = c.prepareCall("{? = call dbo.jtds_p(?, ?)}")) {
          p.registerOutParameter(1, Types.INTEGER); p.setInt(2, 21); p.registerOutParameter(3, Types.INTEGER);
          p.execute();
          return p.getInt(1) + " " + p.getInt(3);
        }
      });
      step("drop", () -> s.executeUpdate("DROP PROCEDURE dbo.jtds_p DROP TABLE dbo.jtds_t"));
    }
  }
}
