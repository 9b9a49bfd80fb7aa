using System;
using System.Collections.Generic;
using System.Threading;

namespace Termgate
{
  /// <summary>Who leads a scope.</summary>
  public sealed class Leader
  {
    public string Owner { get; }
    public long Term { get; }
    /// <summary>null where the holder gave none.</summary>
    public string Endpoint { get; }
    internal Leader(Dictionary<string, object> row)
    {
      Owner = (string)row["owner_id"];
      Term = Line.Number(row["term"]);
      Endpoint = row["endpoint"] as string;
    }
  }

  public sealed partial class Leases
  {
    private static readonly TimeSpan answerWait = TimeSpan.FromSeconds(10);

    /// <summary>Yields who leads, null for nobody, and then each change of owner or term. It takes no part in the election.
    ///
    /// It looks every interval, when the lease can end, and ten times a second while nobody leads; what comes and goes between two looks is
    /// not seen. Leaving the loop ends it. So does an exception: the driver's, or a TimeoutException where no answer comes for 10 s. That is
    /// no change of leader: watch again. What it reports may be over by the time that you read it, so never write because of it.</summary>
    /// <param name="interval">10 ms to 1 day.</param>
    /// <exception cref="OperationCanceledException">stop is cancelled.</exception>
    public IEnumerable<Leader> Watch(string scope, TimeSpan interval, CancellationToken stop = default(CancellationToken))
    {
      if (interval < TimeSpan.FromMilliseconds(10) || interval > TimeSpan.FromDays(1))
        throw new ArgumentOutOfRangeException("interval", "TG005 the interval is " + interval + "; it must be 10 ms to 1 day");
      return Looks(scope, interval, stop);
    }

    private IEnumerable<Leader> Looks(string scope, TimeSpan interval, CancellationToken stop)
    {
      var line = new Line(this);
      try
      {
        Leader last = null;
        for (bool first = true;; first = false)
        {
          stop.ThrowIfCancellationRequested();
          var row = Line.Answer(line.Call("lease", scope), answerWait, stop);
          long left = row == null ? 0 : Line.Number(row["remaining_ms"]);
          Leader leader = left > 0 ? new Leader(row) : null;
          bool same = (leader == null) == (last == null) && (leader == null || (leader.Owner == last.Owner && leader.Term == last.Term));
          last = leader;
          if (first || !same) yield return leader;
          stop.WaitHandle.WaitOne((int)Math.Min(interval.TotalMilliseconds, leader == null ? 100 : left + 1));
        }
      }
      finally { line.Close(); }
    }
  }
}
