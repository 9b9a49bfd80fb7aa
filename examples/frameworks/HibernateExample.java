// Hibernate: a session factory belongs to one term. The URL declares it for every connection; mappings and sessions do not change.
import java.net.URI;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.sql.SQLException;
import org.hibernate.HibernateException;
import org.hibernate.Session;
import org.hibernate.SessionFactory;
import org.hibernate.cfg.Configuration;

public class HibernateExample {
  public static class Account {
    private int id;
    private long balance;
    public int getId() { return id; }
    public void setId(int id) { this.id = id; }
    public long getBalance() { return balance; }
    public void setBalance(long balance) { this.balance = balance; }
  }

  static final String MAPPING = "<?xml version='1.0'?><!DOCTYPE hibernate-mapping PUBLIC '-//Hibernate/Hibernate Mapping DTD 3.0//EN'"
      + " 'http://www.hibernate.org/dtd/hibernate-mapping-3.0.dtd'><hibernate-mapping><class name='HibernateExample$Account' table='accounts' lazy='false'>"
      + "<id name='id' column='id'/><property name='balance' column='balance'/></class></hibernate-mapping>";

  // Open it when the term is won, close it when it is lost. A term has digits and a scope is escaped, so neither can add an option.
  static SessionFactory openUnder(String address, String scope, String term) {
    URI place = URI.create(address);
    String url = "jdbc:postgresql://" + place.getHost() + ":" + place.getPort() + place.getPath();
    if (term != null) {
      String escaped = scope.replaceAll("([\\\\ ])", "\\\\$1");
      String options = "-c termgate.scope=" + escaped + " -c termgate.term=" + Long.parseLong(term);
      url += "?options=" + URLEncoder.encode(options, StandardCharsets.UTF_8).replace("+", "%20");
    }
    return new Configuration()
        .setProperty("hibernate.connection.driver_class", "org.postgresql.Driver")
        .setProperty("hibernate.dialect", "org.hibernate.dialect.PostgreSQLDialect")
        .setProperty("hibernate.connection.url", url)
        .setProperty("hibernate.connection.username", place.getUserInfo().split(":")[0])
        .addXML(MAPPING)
        .buildSessionFactory();
  }

  // A new leader's first act, in a transaction of its own.
  static void raiseFence(SessionFactory factory, String scope, String term) {
    Session session = factory.openSession();
    session.beginTransaction();
    session.createSQLQuery("SELECT termgate.check_term(:scope, :term)").setString("scope", scope).setLong("term", Long.parseLong(term)).uniqueResult();
    session.getTransaction().commit();
    session.close();
  }

  public static void main(String[] given) {
    String scope = System.getenv("TERMGATE_SCOPE"), term = System.getenv("TERMGATE_TERM");
    SessionFactory factory = openUnder(System.getenv("EXAMPLE_URL"), scope, term);
    int status = 0;
    try {
      if (System.getenv("EXAMPLE_WON") != null) raiseFence(factory, scope, term);
      Session session = factory.openSession();
      session.beginTransaction();
      Account account = (Account) session.get(Account.class, 42);
      account.setBalance(account.getBalance() - 30);
      session.getTransaction().commit();
      System.out.println("written");
    } catch (HibernateException error) {
      SQLException cause = null;
      for (Throwable one = error; one != null; one = one.getCause()) {
        if (one instanceof SQLException) cause = (SQLException) one;
      }
      // A batch reports its statement's error as the next one.
      while (cause != null && cause.getNextException() != null) cause = cause.getNextException();
      if (cause == null) throw error;
      System.out.println("refused " + cause.getSQLState());
      status = 3;
    }
    factory.close();
    System.exit(status);
  }
}
