"""A mistake that is planted in a copy of each client: loss is counted from the answer to a renewal, by which time the lease may have been
another's. The scenario that has to find it, the right text and the wrong one."""

FOUND_BY = "late_answers_count_from_when_the_renewal_was_sent"
PLANTS = {
    "dotnet": ("else if (IsHeld) RenewedFrom(sent);", "else if (IsHeld) RenewedFrom(Clock.Now);"),
    "go": ("due = l.renewedFrom(sent)", "due = l.renewedFrom(clock())"),
    "java": ("} else if (isHeld()) {\n        renewedFrom(sent);", "} else if (isHeld()) {\n        renewedFrom(nanoTime());"),
    "node": ("else if (this.held()) this.#renewedFrom(sent);", "else if (this.held()) this.#renewedFrom(clock());"),
    "python": (
        "elif self.held():\n                self._renewed_from(sent)",
        "elif self.held():\n                self._renewed_from(_clock())",
    ),
}
