// C# with System.Data.Odbc: the connection string declares scope and term for every connection of the pool. No statement changes.
using System;
using System.Data.Odbc;

static class OdbcExample {
  // A pool belongs to one term: a new term is another string, and so another pool.
  static string Under(string address, string scope, string term) {
    var place = new Uri(address);
    var text = "Driver={PostgreSQL Unicode};SSLmode=disable;Server=" + place.Host + ";Port=" + place.Port + ";Database=" + place.AbsolutePath.Substring(1) +
               ";UID=" + place.UserInfo.Split(':')[0];
    if (string.IsNullOrEmpty(term)) return text;
    foreach (var letter in scope) {
      if (!char.IsLetterOrDigit(letter) && "-_./:".IndexOf(letter) < 0) throw new ArgumentException("a scope in a connection string has letters, digits and -_./: only");
    }
    return text + ";pqopt={options='-c termgate.scope=" + scope + " -c termgate.term=" + long.Parse(term) + "'}";
  }

  // A new leader's first act, in a transaction of its own.
  static void RaiseFence(OdbcConnection connection, string scope, string term) {
    using (var command = new OdbcCommand("SELECT termgate.check_term(?, ?)", connection)) {
      command.Parameters.AddWithValue("scope", scope);
      command.Parameters.AddWithValue("term", long.Parse(term));
      command.ExecuteScalar();
    }
  }

  static int Main() {
    string scope = Environment.GetEnvironmentVariable("TERMGATE_SCOPE"), term = Environment.GetEnvironmentVariable("TERMGATE_TERM");
    try {
      using (var connection = new OdbcConnection(Under(Environment.GetEnvironmentVariable("EXAMPLE_URL"), scope, term))) {
        connection.Open();
        if (Environment.GetEnvironmentVariable("EXAMPLE_WON") != null) RaiseFence(connection, scope, term);
        using (var command = new OdbcCommand("UPDATE accounts SET balance = balance - ? WHERE id = ?", connection)) {
          command.Parameters.AddWithValue("amount", 30);
          command.Parameters.AddWithValue("id", 42);
          command.ExecuteNonQuery();
        }
      }
      Console.WriteLine("written");
      return 0;
    } catch (OdbcException error) {
      Console.WriteLine("refused " + error.Errors[0].SQLState);
      return 3;
    }
  }
}
