// Hold a lease of Termgate, and write under its term.
//
//   var leases = new Leases(() => new SqlConnection(text), "sqlserver");       // each held lease has a connection of its own
//   using (Lease lease = leases.Hold("billing", TimeSpan.FromSeconds(10), TimeSpan.FromSeconds(30)))
//   while (!lease.Lost.IsCancellationRequested)
//   using (DbTransaction transaction = connection.BeginTransaction()) {
//     lease.Declare(transaction);                                              // TG001: another leads by now
//     ...                                                                      // its own statements, unchanged
//     transaction.Commit();
//   }
//
// The lease is renewed in the background. Lost is cancelled a margin (a fifth of the TTL) before the lease can be another's, counted from
// when the last renewal that succeeded was sent, by a Stopwatch. The database refuses what was written too late. Watch.cs tells who leads.
using System;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.Data;
using System.Data.Common;
using System.Diagnostics;
using System.Globalization;
using System.Text.RegularExpressions;
using System.Threading;
using System.Threading.Tasks;

namespace Termgate
{
  /// <summary>The leases of one database: postgresql, sqlserver or sqlite. Any thread may use it.</summary>
  public sealed partial class Leases
  {
    internal readonly Func<DbConnection> Connect;
    private readonly Dictionary<string, string> texts;
    private readonly string schema;
    /// <summary>Where what a lease goes on after is reported; Trace.TraceWarning unless it is set.</summary>
    public Action<string> Warn = message => Trace.TraceWarning("{0}", message);

    /// <param name="connect">Makes a connection that is not open yet.</param>
    public Leases(Func<DbConnection> connect, string database = "postgresql", string schema = "termgate")
    {
      Connect = connect;
      this.schema = database == "sqlserver" ? "[" + schema.Replace("]", "]]") + "]" : '"' + schema.Replace("\"", "\"\"") + '"';
      texts = Statements.All[database];
    }

    /// <summary>Acquires the lease and keeps it.</summary>
    /// <exception cref="TimeoutException">Another has held it for all of wait (zero: one try), or the database did not answer.</exception>
    public Lease Hold(string scope, TimeSpan ttl, TimeSpan wait, CancellationToken stop = default(CancellationToken), string owner = null, string endpoint = null)
    {
      if (ttl < TimeSpan.FromMilliseconds(100) || ttl > TimeSpan.FromDays(1))
        throw new ArgumentOutOfRangeException("ttl", "TG005 the TTL is " + ttl + "; it must be 100 ms to 1 day");
      owner = owner ?? Environment.MachineName + ":" + Process.GetCurrentProcess().Id + ":" + Guid.NewGuid().ToString("N").Substring(0, 8);
      var line = new Line(this);
      try { return Acquire(line, scope, ttl, Clock.Now + wait, stop, owner, endpoint); }
      catch { line.Close(); throw; }
    }

    /// <summary>Hold, in a thread of its own.</summary>
    public Task<Lease> HoldAsync(string scope, TimeSpan ttl, TimeSpan wait, CancellationToken stop = default(CancellationToken))
      => Task.Factory.StartNew(() => Hold(scope, ttl, wait, stop), stop, TaskCreationOptions.LongRunning, TaskScheduler.Default);

    private Lease Acquire(Line line, string scope, TimeSpan ttl, TimeSpan giveUp, CancellationToken stop, string owner, string endpoint)
    {
      long milliseconds = (long)ttl.TotalMilliseconds, heldFor = 0;
      for (double step = 10;; step = Math.Min(2 * step, 500))
      {
        stop.ThrowIfCancellationRequested();
        TimeSpan patience = (giveUp > Clock.Now ? giveUp - Clock.Now : TimeSpan.Zero) + ttl, sent = Clock.Now;
        if (heldFor <= 0)
        {
          var row = Line.Answer(line.Call("acquire_lease", scope, owner, milliseconds, endpoint, null), patience, stop);
          var lease = Line.Yes(row["acquired"]) ? new Lease(this, line, scope, owner, Line.Number(row["term"]), ttl, sent) : null;
          if (lease != null && lease.IsHeld) return lease;
          if (lease != null) throw new TimeoutException("the lease of scope \"" + scope + "\" came too late: a call takes as long as its TTL of " + ttl);
        }
        var look = Line.Answer(line.Call("lease", scope), patience, stop); // it locks nothing
        heldFor = look == null ? 0 : Math.Max(Line.Number(look["remaining_ms"]), 0);
        double left = (giveUp - Clock.Now).TotalMilliseconds;
        if (left <= 0) throw new TimeoutException("TG006 the lease of scope \"" + scope + "\" is held by another");
        stop.WaitHandle.WaitOne((int)Math.Ceiling(Math.Min(step * Clock.Between(0.5, 1.5), Math.Min(heldFor + Clock.Between(1, 10), left))));
      }
    }

    /// <summary>Runs the work each time this process has become the leader, until it returns while the lease is held and nobody asks for it,
    /// or stop is cancelled. The token that work gets is cancelled when it has to return.</summary>
    public void Lead(string scope, TimeSpan ttl, Action<Lease, CancellationToken> work, CancellationToken stop = default(CancellationToken))
    {
      for (string owner = null; !stop.IsCancellationRequested;)
      {
        Lease lease;
        try { lease = Hold(scope, ttl, TimeSpan.FromHours(1), stop, owner); }
        catch (OperationCanceledException) { return; }
        catch (Exception error) when (error is DbException || error is TimeoutException)
        {
          Warn("no lease of scope \"" + scope + "\": " + error.Message);
          stop.WaitHandle.WaitOne((int)Clock.Between(250, 1000));
          continue;
        }
        using (lease)
        using (var both = CancellationTokenSource.CreateLinkedTokenSource(stop, lease.Lost, lease.AskedToLeave))
        {
          owner = lease.Owner; // whoever is asked to leave has no part in the next election
          try { work(lease, both.Token); }
          catch (Exception error) when (!lease.IsHeld) { Warn("the work under term " + lease.Term + " ended after its lease: " + error.Message); }
          if (lease.IsHeld && !lease.AskedToLeave.IsCancellationRequested) return;
        }
      }
    }

    /// <summary>The first row of a call, or null.</summary>
    internal Dictionary<string, object> Row(DbConnection connection, DbTransaction transaction, string name, params object[] values)
    {
      using (DbCommand command = connection.CreateCommand())
      {
        string mark = command.GetType().Namespace.EndsWith(".Odbc", StringComparison.Ordinal) ? "?" : "@p$1";
        command.CommandText = Regex.Replace(texts[name], @"\$(\d)", mark).Replace("@schema@", schema);
        command.Transaction = transaction;
        foreach (object value in values)
        {
          DbParameter parameter = command.CreateParameter();
          parameter.ParameterName = "@p" + (command.Parameters.Count + 1);
          parameter.Value = value ?? DBNull.Value;
          command.Parameters.Add(parameter);
        }
        using (DbDataReader reader = command.ExecuteReader())
        {
          while (reader.FieldCount == 0 && reader.NextResult()) {}
          if (!reader.Read()) return null;
          var row = new Dictionary<string, object>();
          for (int at = 0; at < reader.FieldCount; ++at) row[reader.GetName(at)] = reader.GetValue(at);
          return row;
        }
      }
    }
  }

  /// <summary>A connection with a thread. A call that hangs hangs there; whoever waits gives up when he wants, and goes on elsewhere.</summary>
  internal sealed class Line
  {
    private readonly BlockingCollection<Action> jobs = new BlockingCollection<Action>();
    private readonly Leases leases;
    private DbConnection connection;
    internal Line(Leases leases)
    {
      this.leases = leases;
      new Thread(() => { foreach (Action job in jobs.GetConsumingEnumerable()) job(); Drop(); }) { IsBackground = true, Name = "termgate calls" }.Start();
    }
    internal Task<Dictionary<string, object>> Call(string name, params object[] values)
    {
      var answer = new TaskCompletionSource<Dictionary<string, object>>(TaskCreationOptions.RunContinuationsAsynchronously);
      jobs.Add(() =>
      {
        try
        {
          connection = connection ?? leases.Connect();
          if (connection.State != ConnectionState.Open) connection.Open();
          answer.TrySetResult(leases.Row(connection, null, name, values));
        }
        catch (Exception error) { Drop(); answer.TrySetException(error); }
      });
      return answer.Task;
    }
    /// <summary>After the calls that were made before.</summary>
    internal void Close() { jobs.CompleteAdding(); }
    private void Drop()
    {
      try { if (connection != null) connection.Dispose(); }
      catch (Exception error) { leases.Warn("a connection did not close: " + error.Message); }
      connection = null;
    }

    internal static Dictionary<string, object> Answer(Task<Dictionary<string, object>> call, TimeSpan patience, CancellationToken stop)
    {
      if (Task.WaitAny(new Task[] { call }, (int)patience.TotalMilliseconds, stop) < 0) throw new TimeoutException("the database did not answer");
      return call.GetAwaiter().GetResult();
    }

    internal static long Number(object value) { return Convert.ToInt64(value, CultureInfo.InvariantCulture); }
    internal static bool Yes(object value) { return value is bool ? (bool)value : Convert.ToString(value, CultureInfo.InvariantCulture) == "1"; }
  }

  /// <summary>A lease that is held, from Hold. Dispose gives it back. Any thread may use it.</summary>
  public sealed class Lease : IDisposable
#if NETCOREAPP
    , IAsyncDisposable
#endif
  {
    private readonly Leases leases;
    private readonly TimeSpan ttl;
    private readonly CancellationTokenSource lost = new CancellationTokenSource(), asked = new CancellationTokenSource();
    private readonly object mutex = new object(); // guards what follows
    private Line line;
    private TimeSpan until, due;
    private bool givenBack;
    public string Scope { get; }
    public string Owner { get; }
    public long Term { get; }
    internal Lease(Leases leases, Line line, string scope, string owner, long term, TimeSpan ttl, TimeSpan sent)
    {
      this.leases = leases; this.line = line; this.ttl = ttl; Scope = scope; Owner = owner; Term = term;
      RenewedFrom(sent);
      new Thread(Keep) { IsBackground = true, Name = "termgate lease" }.Start();
    }

    /// <summary>Cancelled when the lease can no longer be trusted, or was given back. Callbacks run on the lease's thread and return at once.</summary>
    public CancellationToken Lost { get { return lost.Token; } }
    /// <summary>Cancelled when somebody asks for the lease, which is held as before for a while. Callbacks return at once.</summary>
    public CancellationToken AskedToLeave { get { return asked.Token; } }
    /// <summary>Whether the lease may be trusted at this moment, by the clock.</summary>
    public bool IsHeld { get { lock (mutex) return !lost.IsCancellationRequested && Clock.Now < until; } }
    /// <summary>First in a transaction that writes: checks the term and declares it.</summary>
    public void Declare(DbTransaction transaction) { leases.Row(transaction.Connection, transaction, "check_term", Scope, Term); }

    /// <summary>Gives the lease back, so that another can have it at once. False: it was no longer held.</summary>
    public bool Release()
    {
      bool held; TimeSpan end;
      lock (mutex) { held = IsHeld && !givenBack; givenBack = true; end = until; Monitor.PulseAll(mutex); }
      lost.Cancel();
      try
      {
        for (int attempt = 0; held && Clock.Now < end; ++attempt)
        {
          try { return Line.Yes(Line.Answer(line.Call("release_lease", Scope, Owner, Term), end - Clock.Now, CancellationToken.None)["released"]); }
          catch (DbException) { if (attempt == 4) throw; }
          Thread.Sleep(10 << attempt);
        }
      }
      catch (TimeoutException) {} // it ends by itself
      finally { line.Close(); }
      return false;
    }

    /// <summary>Release; where that fails, the lease ends by itself.</summary>
    public void Dispose()
    {
      try { Release(); }
      catch (DbException error) { leases.Warn("the lease of scope \"" + Scope + "\" was not given back: " + error.Message); }
    }

#if NETCOREAPP
    public ValueTask DisposeAsync() { return new ValueTask(Task.Factory.StartNew(Dispose, TaskCreationOptions.LongRunning)); }
#endif

    /// <summary>sent: the moment from which the database counts at the earliest.</summary>
    private void RenewedFrom(TimeSpan sent)
    {
      TimeSpan trusted = sent + ttl - Clock.Part(ttl, 0.2);
      if (trusted > until) until = trusted;
      due = sent + Clock.Part(ttl, Clock.Between(0.25, 1 / 3.0)); // holders that were elected together do not renew together
    }

    /// <summary>The lease's thread: sends the renewals and watches the clock, whatever a renewal does.</summary>
    private void Keep()
    {
      lock (mutex)
      {
        Task pending = Task.FromResult(0);
        for (TimeSpan now = Clock.Now; !givenBack && now < until; now = Clock.Now)
        {
          if (now >= due)
          {
            // Without an answer that connection may be dead, so the next try has another. The answer counts if it still comes.
            if (!pending.IsCompleted) { line.Close(); line = new Line(leases); }
            TimeSpan sent = now;
            due = now + Clock.Part(ttl, 0.25); // unless an answer comes
            pending = line.Call("renew_lease", Scope, Owner, Term, (long)ttl.TotalMilliseconds)
              .ContinueWith(answer => Answered(sent, answer), TaskContinuationOptions.ExecuteSynchronously);
          }
          TimeSpan next = (due < until ? due : until) - now;
          Monitor.Wait(mutex, next > TimeSpan.Zero ? (int)Math.Ceiling(next.TotalMilliseconds) : 0);
        }
      }
      lost.Cancel();
    }

    private void Answered(TimeSpan sent, Task<Dictionary<string, object>> answer)
    {
      lock (mutex)
      {
        if (answer.IsFaulted)
        {
          leases.Warn("the lease of scope \"" + Scope + "\" was not renewed: " + answer.Exception.InnerException.Message);
          due = Clock.Now + Clock.Part(ttl, Clock.Between(0.0375, 0.0625));
        }
        else if (!Line.Yes(answer.Result["renewed"])) until = Clock.Now;
        else if (IsHeld) RenewedFrom(sent);
        Monitor.PulseAll(mutex);
      }
      if (!answer.IsFaulted && answer.Result.ContainsKey("leave_in_ms") && answer.Result["leave_in_ms"] != DBNull.Value) asked.Cancel();
    }
  }

  internal static class Clock
  {
    private static readonly Stopwatch watch = Stopwatch.StartNew();
    private static readonly Random random = new Random(Guid.NewGuid().GetHashCode());
    internal static TimeSpan Now { get { return watch.Elapsed; } } // nobody sets it
    internal static TimeSpan Part(TimeSpan whole, double part) { return TimeSpan.FromTicks((long)(whole.Ticks * part)); }
    internal static double Between(double low, double high) { lock (random) return low + (high - low) * random.NextDouble(); }
  }
}
