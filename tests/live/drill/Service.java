// A service for `termgate drill` over JDBC: leads TERMGATE_SCOPE by a lease of Termgate's and writes an entry every 50 ms, in one transaction with the check; leaves when it is refused.
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;

class Service {
    static final String scope = System.getenv("TERMGATE_SCOPE");
    static final String owner = "jdbc-" + ProcessHandle.current().pid();

    static Connection connect() throws SQLException {
        String url = "jdbc:postgresql://" + System.getenv("PGHOST") + ":" + System.getenv("PGPORT") + "/" + System.getenv("PGDATABASE") + "?sslmode=disable&user=" + System.getenv("PGUSER");
        return DriverManager.getConnection(url);
    }

    static long acquire(Connection connection) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement("SELECT acquired, term FROM termgate.acquire_lease(?, ?, interval '1 s')")) {
            statement.setString(1, scope);
            statement.setString(2, owner);
            ResultSet rows = statement.executeQuery();
            rows.next();
            return rows.getBoolean(1) ? rows.getLong(2) : 0;
        }
    }

    static void write(Connection connection, long term) throws SQLException {
        connection.setAutoCommit(false);
        try (PreparedStatement check = connection.prepareStatement("SELECT termgate.check_term(?, ?)");
             PreparedStatement insert = connection.prepareStatement("INSERT INTO entries (scope, term, instance) VALUES (?, ?, 'jdbc')")) {
            for (PreparedStatement statement : new PreparedStatement[] {check, insert}) {
                statement.setString(1, scope);
                statement.setLong(2, term);
                statement.execute();
            }
            connection.commit();
        } catch (SQLException error) {
            if (!connection.isClosed()) connection.rollback();
            throw error;
        } finally {
            if (!connection.isClosed()) connection.setAutoCommit(true);
        }
    }

    public static void main(String[] words) throws Exception {
        Connection connection = connect();
        long term = 0;
        while ((term = acquire(connection)) == 0) Thread.sleep(50);
        System.out.println("leads under term " + term);
        for (;;) {
            try {
                write(connection, term);
                try (PreparedStatement renew = connection.prepareStatement("SELECT termgate.renew_lease(?, ?, ?, interval '1 s')")) {
                    renew.setString(1, scope);
                    renew.setString(2, owner);
                    renew.setLong(3, term);
                    renew.execute();
                }
            } catch (SQLException error) {
                System.out.println(error.getSQLState() + " " + error.getMessage());
                if ("TG001".equals(error.getSQLState())) System.exit(3);
                connection = connect();  // evicted while it slept, perhaps
            }
            Thread.sleep(50);
        }
    }
}
