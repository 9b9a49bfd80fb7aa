"""Mistakes that are planted in a copy of each client, and the scenario that has to find each: the right text, and the wrong one."""

PLANTS = {
    # Loss is counted from the answer to a renewal, by which time the lease may have been another's.
    "answer": (
        "late_answers_count_from_when_the_renewal_was_sent",
        {
            "dotnet": ("else if (IsHeld) RenewedFrom(sent);", "else if (IsHeld) RenewedFrom(Clock.Now);"),
            "go": ("due = l.renewedFrom(sent)", "due = l.renewedFrom(clock())"),
            "java": ("} else if (isHeld()) {\n        renewedFrom(sent);", "} else if (isHeld()) {\n        renewedFrom(nanoTime());"),
            "node": ("else if (this.held()) this.#renewedFrom(sent);", "else if (this.held()) this.#renewedFrom(clock());"),
            "python": (
                "elif self.held():\n                self._renewed_from(sent)",
                "elif self.held():\n                self._renewed_from(_clock())",
            ),
        },
    ),
    # A renewal names the owner alone, so it renews a lease that was taken under another term.
    "term": (
        "the_same_owner_takes_its_lease_again_and_the_first_handle_is_lost",
        {
            "dotnet": (
                'pending = line.Call("renew_lease", Scope, Owner, Term, (long)ttl.TotalMilliseconds)',
                (
                    'pending = line.Call("lease", Scope).ContinueWith(found => line.Call("renew_lease", Scope, Owner,'
                    ' Line.Number(found.Result["term"]), (long)ttl.TotalMilliseconds)).Unwrap()'
                ),
            ),
            "go": (
                'row, err := l.termgate.call(l.kept, l.ttl, "renew_lease", l.Scope, l.Owner, l.Term, l.ttl.Milliseconds())',
                (
                    'row, err := l.termgate.call(l.kept, l.ttl, "lease", l.Scope)\n'
                    '\trow, err = l.termgate.call(l.kept, l.ttl, "renew_lease", l.Scope, l.Owner, row["term"], l.ttl.Milliseconds())'
                ),
            ),
            "java": (
                'pending = line.call("renew_lease", scope, owner, term, ttl / 1_000_000).handle(',
                (
                    'pending = line.call("lease", scope).thenCompose(found -> line.call("renew_lease", scope, owner, found.get("term"), ttl'
                    ' / 1_000_000)).handle('
                ),
            ),
            "node": (
                'const row = await this.#line.call("renew_lease", this.scope, this.owner, this.term, this.#ttl);',
                (
                    'const { term } = await this.#line.call("lease", this.scope);'
                    ' const row = await this.#line.call("renew_lease", this.scope, this.owner, term, this.#ttl);'
                ),
            ),
            "python": (
                'pending = self._line.call("renew_lease", self.scope, self.owner, self.term,',
                (
                    'pending = self._line.call("renew_lease", self.scope, self.owner, int(self._line.call("lease",'
                    ' self.scope).result()["term"]),'
                ),
            ),
        },
    ),
    "jitter": (
        "renewals_come_within_a_third_of_the_ttl_with_jitter",
        {
            "dotnet": ("due = sent + Clock.Part(ttl, Clock.Between(0.25, 1 / 3.0));", "due = sent + Clock.Part(ttl, 1 / 3.0);"),
            "go": ("return sent + between(l.ttl/4, l.ttl/3)", "return sent + l.ttl/3"),
            "java": ("due = sent + between(ttl / 4, ttl / 3);", "due = sent + ttl / 3;"),
            "node": ("this.#due = sent + (this.#ttl / 3) * between(0.75, 1);", "this.#due = sent + this.#ttl / 3;"),
            "python": ("self._due = sent + self._ttl / 3 * random.uniform(0.75, 1)", "self._due = sent + self._ttl / 3"),
        },
    ),
    # A watch compares the owners alone, so it misses a lease that was taken again under another term.
    "owner": (
        "a_watch_reports_who_leads_and_each_change",
        {
            "dotnet": ("leader.Owner == last.Owner && leader.Term == last.Term", "leader.Owner == last.Owner"),
            "go": ("leader.Owner != last.Owner || leader.Term != last.Term", "leader.Owner != last.Owner || last.Term == -1"),
            "java": ("owner.equals(((Leader) other).owner) && term == ((Leader) other).term", "owner.equals(((Leader) other).owner)"),
            "node": ("leader?.owner !== last?.owner || leader?.term !== last?.term", "leader?.owner !== last?.owner"),
            "python": ("if leader != last:", "if last == () or (leader and leader.owner) != (last and last.owner):"),
        },
    ),
}
