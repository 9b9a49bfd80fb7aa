// The C# client as the behaviour suite drives it (tests/live/leases/handles_test.py; the protocol is in handles/lab.py).
using System;
using System.Collections.Concurrent;
using System.Data.Common;
using System.Data.Odbc;
using System.IO;
using System.Linq;
using System.Text;
using System.Threading;
using Termgate;

static class Player
{
  static readonly ConcurrentDictionary<string, Lease> leases = new ConcurrentDictionary<string, Lease>();
  static readonly ConcurrentDictionary<string, CancellationTokenSource> stops = new ConcurrentDictionary<string, CancellationTokenSource>();
  static readonly ConcurrentDictionary<string, bool> fails = new ConcurrentDictionary<string, bool>();
  static readonly TextWriter output = new StreamWriter(Console.OpenStandardOutput(), new UTF8Encoding(false)) { AutoFlush = true };

  static void Say(params object[] words)
  {
    lock (output) output.WriteLine(string.Join("\t", words.Select(word => Convert.ToString(word).Replace('\t', ' ').Replace('\n', ' '))));
  }

  static Leases Client(string[] words)
  {
    return new Leases(() => new OdbcConnection(words[2]), words[3]) { Warn = message => {} };
  }

  static TimeSpan Milliseconds(string text) { return TimeSpan.FromMilliseconds(long.Parse(text)); }

  static string Given(string word) { return word == "" ? null : word; }

  static void Hold(string[] words)
  {
    try
    {
      Lease lease = Client(words).Hold(words[4], Milliseconds(words[5]), Milliseconds(words[6]), owner: Given(words[7]), endpoint: Given(words[8]));
      leases[words[1]] = lease;
      Say(words[1], "held", lease.Term, lease.Owner);
      lease.AskedToLeave.Register(() => Say(words[1], "asked"));
      lease.Lost.Register(() => Say(words[1], "lost"));
    }
    catch (TimeoutException error) { Say(words[1], "blocked", error.Message); }
  }

  static void Insert(DbConnection connection, DbTransaction transaction, string value)
  {
    using (DbCommand command = connection.CreateCommand())
    {
      command.Transaction = transaction;
      command.CommandText = "INSERT INTO written VALUES (" + value + ")";
      command.ExecuteNonQuery();
    }
  }

  static void Write(string[] words)
  {
    using (var connection = new OdbcConnection(words[3]))
    {
      connection.Open();
      using (DbTransaction transaction = connection.BeginTransaction())
      {
        leases[words[2]].Declare(transaction);
        Insert(connection, transaction, words[4]);
        transaction.Commit();
      }
      if (words[5] == "twice") Insert(connection, null, words[4]);
    }
    Say(words[1], "written");
  }

  static void Lead(string[] words)
  {
    stops[words[1]] = new CancellationTokenSource();
    Client(words).Lead(words[4], Milliseconds(words[5]), (lease, stop) =>
    {
      Say(words[1], "leading", lease.Term);
      while (!stop.WaitHandle.WaitOne(10))
        if (fails.ContainsKey(words[1])) throw new InvalidOperationException("the work failed");
      Say(words[1], "stopped");
    }, stops[words[1]].Token);
    Say(words[1], "done");
  }

  static void Watch(string[] words)
  {
    stops[words[1]] = new CancellationTokenSource();
    try
    {
      foreach (Leader leader in Client(words).Watch(words[4], Milliseconds(words[5]), stops[words[1]].Token))
      {
        if (leader == null) Say(words[1], "now");
        else Say(words[1], "now", leader.Owner, leader.Term, leader.Endpoint);
      }
    }
    catch (OperationCanceledException) { Say(words[1], "done"); }
  }

  static void Play(string[] words)
  {
    try
    {
      switch (words[0])
      {
        case "hold": Hold(words); break;
        case "held": Say(words[1], leases[words[2]].IsHeld ? "true" : "false"); break;
        case "release": Say(words[1], "released", leases[words[2]].Release() ? "true" : "false"); break;
        case "write": Write(words); break;
        case "lead": Lead(words); break;
        case "watch": Watch(words); break;
        case "stop": stops[words[2]].Cancel(); Say(words[1], "ok"); break;
        case "fail": fails[words[2]] = true; Say(words[1], "ok"); break;
      }
    }
    catch (OdbcException error) { Say(words[1], "error", error.Errors.Count > 0 ? error.Errors[0].SQLState : "", error.Message); }
    catch (Exception error) { Say(words[1], "error", error.GetType().Name, error.Message); }
  }

  static void Main()
  {
    var input = new StreamReader(Console.OpenStandardInput(), new UTF8Encoding(false));
    for (string line; (line = input.ReadLine()) != null && line != "quit";)
    {
      string[] words = line.Split('\t').Select(Uri.UnescapeDataString).ToArray();
      new Thread(() => Play(words)) { IsBackground = true }.Start();
    }
    foreach (Lease lease in leases.Values) lease.Dispose(); // what the end of each block does
    Say("player", "gone");
  }
}
