#!/usr/bin/env python3
"""[F1] [F2] [F3] Termgate in a Patroni cluster: leaders write while primaries are killed, stopped and switched over.

  patroni_storm.py TERMGATE_COMMAND [--failovers N] [--minutes M] [--synchronous [--not-strict] | --asynchronous]
    [--seed S] [--json FILE]

Three PostgreSQL 15 nodes and etcd on loopback. Four writers hold leases of Termgate's, two of them for a scope that
they write directly, two for a scope that they write through a proxy for each node. They find the primary by several
hosts and target_session_attrs=primary.

After each failover, before anything else: a term that was shut out before must be refused by the new primary, with
TG001 (the fence is there) or TG004 (it may have been forgotten). In synchronous mode (`init --failover synchronous`)
the fence must be there. At the end `termgate verify` must find nothing, terms along each stream must not fall, and in
synchronous mode every acknowledged write must be there. In asynchronous mode each promotion must have shut every scope:
all that a later primary accepted has a term at least 2^32 above what had been acknowledged by the one before, and an
acknowledged write may only be missing where its primary was replaced. Synchronous mode is with
synchronous_mode_strict, as docs/use/clusters.md advises.

With more than 3 failovers half of them are in each mode, and with 3 all are asynchronous. ./test --long plays 100.
Run it by Debian's Python, whose packages Patroni needs too.
"""
import argparse
import json
import os
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import psycopg2  # noqa: E402
from patroni_lab import BIN, Cluster, free_port, within  # noqa: E402

ENV = {name: value for name, value in os.environ.items() if not name.startswith(("TERMGATE_", "PG"))}
STUCK = 3  # seconds until a writer gives up on an answer
JUMP = 1 << 32  # at least by so much does an acquisition jump after a promotion that may have forgotten raises


class Writer(threading.Thread):
    """A leader: acquires, renews, writes, and tells what was acknowledged. Leases are the database's own, taken on a
    connection to it; writes go where `url` says, which may be the proxies."""

    def __init__(self, storm, name, scope, lease_url, url):
        super().__init__(daemon=True)
        self.storm, self.name, self.scope = storm, name, scope
        self.urls = {"lease": lease_url, "write": url}
        self.open, self.descriptors = {}, {}
        self.busy = self.term = None
        self.renewed = 0.0
        self.number = self.port = 0

    def ask(self, which, statement, *values):
        connection = self.open.get(which)
        if connection is None:
            connection = self.open[which] = psycopg2.connect(self.urls[which])
            connection.autocommit = True
            self.descriptors[which] = os.dup(connection.fileno())
            if which == "write":
                (self.port,) = self.ask("write", "SELECT inet_server_port()")
        self.busy = (which, time.monotonic())
        try:
            with connection.cursor() as cursor:
                cursor.execute(statement, values)
                return cursor.fetchone()
        finally:
            self.busy = None

    def run(self):
        while not self.storm.over:
            if self.storm.paused.is_set():
                time.sleep(0.02)
                continue
            try:
                self.step()
            except psycopg2.Error as error:
                self.failed(error)
        self.close()

    def step(self):
        if self.term is None:
            statement = "SELECT acquired, term FROM termgate.acquire_lease(%s, %s, '1 second')"
            acquired, term = self.ask("lease", statement, self.scope, self.name)
            if not acquired:
                time.sleep(0.1)
                return
            self.term, self.renewed = term, time.monotonic()
            self.storm.acquired(self.scope, term)
        elif time.monotonic() - self.renewed > 0.3:
            now = time.monotonic()
            statement = "SELECT renewed FROM termgate.renew_lease(%s, %s, %s, '1 second')"
            (renewed,) = self.ask("lease", statement, self.scope, self.name, self.term)
            if not renewed:
                self.term = None
                return
            self.renewed = now
        self.number += 1
        payload = f"{self.name}-{self.number}"
        declared = f"/*termgate.scope='{self.scope}',termgate.term='{self.term}'*/ "
        statement = declared + "SELECT termgate.append(%s, %s, %s::bytea, NULL, %s)"
        self.ask("write", statement, f"log of {self.scope}", self.term, payload, self.scope)
        warnings = " ".join(self.open["write"].notices)
        self.open["write"].notices.clear()
        self.storm.acknowledged(self.scope, payload, self.port, self.term, warnings)
        # Each leads for a while only.
        if self.number % 150 == 0:
            self.ask("lease", "SELECT termgate.release_lease(%s, %s, %s)", self.scope, self.name, self.term)
            self.term = None
            time.sleep(0.2)
        time.sleep(0.004)

    def failed(self, error):
        self.storm.count(error.pgcode or "connection", f"{self.name}: {error}", self.scope)
        if error.pgcode in ("TG001", "TG004", "TG005", "TG006"):
            self.term = None
        else:
            self.close()
        time.sleep(0.03)

    def close(self):
        for connection in self.open.values():
            connection.close()
        for descriptor in self.descriptors.values():
            os.close(descriptor)
        self.open, self.descriptors = {}, {}

    def give_up(self):
        """What a client's own timeout does: the connection is shut."""
        busy = self.busy
        if busy is None or time.monotonic() - busy[1] < STUCK or busy[0] not in self.descriptors:
            return
        try:
            with socket.socket(fileno=os.dup(self.descriptors[busy[0]])) as one:
                one.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


class Storm:
    def __init__(self, options, synchronous):
        self.synchronous = synchronous
        self.random = random.Random(options.seed + synchronous)
        self.lock = threading.Lock()
        self.paused = threading.Event()
        self.over = False
        self.moved, self.last, self.unsettled = 0, "", False
        self.local_only, self.keep_logs = [], False
        self.codes, self.acks, self.terms = Counter(), [], {"direct": [], "proxied": []}
        self.untrusted = []  # when a writer of which scope got TG004
        self.breaches, self.failovers = [], []
        self.cluster = Cluster(synchronous, strict=synchronous and not options.not_strict)
        self.proxies, self.writers = [], []
        try:
            self.prepare()
        except BaseException:
            self.stop()
            raise

    def prepare(self):
        leader = self.cluster.leader()
        admin = f"postgresql://postgres@127.0.0.1:{leader.port}/postgres"
        script = (
            "CREATE ROLE termgate_owner LOGIN; CREATE ROLE app LOGIN; GRANT pg_signal_backend TO termgate_owner;"
            "GRANT CREATE ON DATABASE postgres TO termgate_owner"
        )
        subprocess.run([f"{BIN}/psql", "-qX", admin, "-c", script], check=True, env=ENV)
        owner = f"postgresql://termgate_owner@127.0.0.1:{leader.port}/postgres"
        grants = ["--grant", "app=lead", "--failover", "synchronous" if self.synchronous else "declared"]
        subprocess.run([options.termgate, "init", "--db", owner, *grants], check=True, env=ENV, stdout=subprocess.DEVNULL)
        ports = []
        for node in self.cluster.nodes:
            port = free_port()
            ports.append(port)
            with open(self.cluster.folder / f"proxy-{node.name}.log", "wb") as log:
                backend = f"postgresql://termgate_owner@127.0.0.1:{node.port}/postgres?connect_timeout=2"
                command = [options.termgate, "proxy", "--listen", f"127.0.0.1:{port}", "--backend", backend]
                self.proxies.append(subprocess.Popen(command, stdout=log, stderr=log, env=ENV))
        proxies = ",".join(f"127.0.0.1:{port}" for port in ports)
        self.proxy_url = f"postgresql://app@{proxies}/postgres?target_session_attrs=primary&connect_timeout=2"
        for index in range(4):
            scope = "direct" if index < 2 else "proxied"
            self.writers.append(
                Writer(self, f"w{index}", scope, self.cluster.url("app"), self.cluster.url("app") if index < 2 else self.proxy_url)
            )
        for writer in self.writers:
            writer.start()
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        while not self.over:
            for writer in self.writers:
                writer.give_up()
            time.sleep(0.1)

    def acquired(self, scope, term):
        with self.lock:
            self.terms[scope].append(term)

    def acknowledged(self, scope, payload, port, term, warnings=""):
        with self.lock:
            # PostgreSQL acknowledges a commit whose wait for the standby was cancelled, and warns.
            if "synchronous replication" in warnings:
                self.local_only.append(payload)
            else:
                self.acks.append((time.monotonic(), scope, payload, port, term))

    def count(self, code, message, scope):
        with self.lock:
            self.codes[code] += 1
            if code == "TG004":
                self.untrusted.append((time.monotonic(), scope))
            self.last = message

    def breach(self, text):
        print("BREACH:", text, flush=True)
        self.breaches.append(text)

    def query(self, node, statement, *values, user="app"):
        connection = psycopg2.connect(
            f"postgresql://{user}@127.0.0.1:{node.port}/postgres?connect_timeout=2&options=-cstatement_timeout%3D5000"
        )
        try:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(statement, values)
                return cursor.fetchall()
        finally:
            connection.close()

    # --- what happens to a primary

    def switchover(self, old):
        self.cluster.switch_over(old)

    def kill_postgres(self, old):
        old.kill(patroni=False)

    def kill_node(self, old):
        old.kill(patroni=True)
        return old.start

    def cut_off(self, old):
        stopped = old.signal(signal.SIGSTOP)

        def back():
            time.sleep(self.random.uniform(0, 1))
            for pid in stopped:
                try:
                    os.kill(pid, signal.SIGCONT)
                except ProcessLookupError:
                    pass

        return back

    def lag(self, old):
        """The standbys do not get the last raise: the new primary has really forgotten it."""
        self.paused.set()
        time.sleep(0.3)
        receivers = [pid for node in self.cluster.nodes if node is not old for pid in node.receivers()]
        for pid in receivers:
            os.kill(pid, signal.SIGSTOP)
        self.forgotten = {}
        for scope in self.terms:
            statement = "SELECT term FROM termgate.acquire_lease(%s, 'the last', '5 seconds') WHERE acquired"
            ((term,),) = within(10, lambda s=scope, q=statement: self.query(old, q, s), "an acquisition")
            self.acquired(scope, term)
            self.forgotten[scope] = term
            self.query(old, "SELECT termgate.append(%s, %s, %s::bytea, NULL, %s)", f"log of {scope}", term, f"last-{term}", scope)
            self.acknowledged(scope, f"last-{term}", old.port, term)
        old.kill(patroni=True)
        for pid in receivers:
            os.kill(pid, signal.SIGTERM)
            os.kill(pid, signal.SIGCONT)
        return old.start

    # --- one failover

    def fail_over(self, fault):
        old = self.cluster.leader()
        with self.lock:
            before = {scope: sorted(set(terms)) for scope, terms in self.terms.items()}
        self.forgotten = None
        began = time.monotonic()
        back = getattr(self, fault)(old)
        if self.forgotten:
            began = time.monotonic()
            for scope, term in self.forgotten.items():
                before[scope].append(term)
        new = self.cluster.leader(60, other_than=old)
        elected = time.monotonic() - began
        probes = {scope: self.probe(new, scope, terms) for scope, terms in before.items() if len(terms) > 1}
        self.paused.clear()
        if back:
            back()

        def first(scope):
            # A busy machine may make Patroni fail over again by itself, so it need not be that node.
            with self.lock:
                found = (at for at, s, _, port, _ in self.acks if s == scope and at > began and (port == new.port or at > began + elected))
                return min(found, default=None)

        try:
            for scope in self.terms:
                within(90, lambda s=scope: first(s), f"a write of {scope} on {new.name} after {fault}")
        except TimeoutError as error:
            self.breach(f"{error}; the last error was {self.last}")
        times = {scope: round(first(scope) - began, 2) for scope in self.terms if first(scope)}
        record = {
            "fault": fault,
            "old": old.port,
            "new": new.port,
            "lost": Counter(),
            "shut": {},
            "at": began,
            "until": time.monotonic(),
            "elected": round(elected, 2),
            **times,
            "probes": probes,
        }
        self.failovers.append(record)
        print(
            (
                f"{len(self.failovers):3} {fault:14} {old.name} -> {new.name}  primary {elected:5.2f} s  next write {times}  stale term:"
                f" {probes}"
            ),
            flush=True,
        )
        try:
            self.cluster.settle(240)
        except TimeoutError as error:
            # Patroni's, on a machine that is too busy: what has been until here is judged.
            print(f"    {error}: the storm ends here", flush=True)
            self.keep_logs = self.unsettled = True
            return
        if self.cluster.leader() is not new:
            self.moved += 1

    def probe(self, node, scope, terms):
        """A write with a term that was shut out, on the new primary: never accepted. Patroni may call a node primary
        that is still promoting; a write is refused there too, for it is read-only."""
        highest, stale = terms[-1], terms[-2]
        end = time.monotonic() + 20
        while True:
            try:
                self.query(node, "SELECT termgate.append(%s, %s, 'stale'::bytea, NULL, %s)", f"log of {scope}", stale, scope)
                self.breach(f"{node.name} accepted term {stale} of {scope}, which {highest} had shut out")
                return "accepted"
            except psycopg2.Error as error:
                if error.pgcode in ("TG001", "TG004"):
                    code = error.pgcode
                    break
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)
        ((fence, untrusted),) = self.query(
            node, "SELECT term, untrusted FROM termgate.fence_status WHERE scope = %s", scope, user="postgres"
        )
        if fence < highest and not untrusted:
            self.breach(f"{node.name} has the fence of {scope} at {fence}, below {highest}, and trusts it")
        if self.synchronous and (fence < highest or code != "TG001"):
            self.breach(f"{node.name}: synchronous, and the fence of {scope} is {fence}, not {highest}; a stale term gets {code}")
        if self.forgotten:
            if fence >= highest:
                print(f"    (the raise of {scope} to {highest} had reached the standby)")
            elif code != "TG004":
                self.breach(f"{node.name} forgot {highest} of {scope} and answers {code}")
            return code + (" forgotten" if fence < highest else "")
        return code

    def judge(self):
        self.over = True
        end = time.monotonic() + 30
        while any(writer.is_alive() for writer in self.writers) and time.monotonic() < end:
            for writer in self.writers:
                writer.give_up()
            time.sleep(0.1)
        # What is acknowledged after the streams were read would seem to be missing.
        if any(writer.is_alive() for writer in self.writers):
            self.breach("a writer did not end, so nothing can be said of its writes")
        with self.lock:
            acks = list(self.acks)
        if not self.unsettled:
            self.cluster.settle(240)
        leader = self.cluster.leader()
        verify = subprocess.run(
            [options.termgate, "verify", "--db", f"postgresql://termgate_owner@127.0.0.1:{leader.port}/postgres"],
            capture_output=True,
            text=True,
            env=ENV,
        )
        if verify.returncode != 0:
            self.breach(f"verify: {verify.stdout}{verify.stderr}")
        lost = Counter()
        for scope in self.terms:
            rows = self.query(
                leader,
                "SELECT term, convert_from(payload, 'UTF8') FROM termgate.read_stream(%s, 0, 1000000000) ORDER BY sequence_no",
                f"log of {scope}",
                user="postgres",
            )
            terms = [term for term, _ in rows]
            if terms != sorted(terms):
                self.breach(f"the terms of {scope} fall along its stream")
            there = Counter(payload for _, payload in rows)
            if any(number > 1 for number in there.values()):
                self.breach(f"a write of {scope} is there twice")
            for at, its_scope, payload, port, _ in acks:
                if its_scope != scope or payload in there:
                    continue
                # Only what a primary acknowledged that was replaced afterwards, or that did not know yet that it had been.
                cause = next((one for one in self.failovers if one["old"] == port and at < one["until"] + 10 and at > one["at"] - 30), None)
                lost[cause["fault"] if cause else "no cause"] += 1
                if cause:
                    cause["lost"][scope] += 1
                if self.synchronous or not cause:
                    self.explain(at, scope, payload, port)
            if not self.synchronous:
                self.judge_shut(scope, acks)
        if self.synchronous and lost:
            self.breach(f"synchronous, and acknowledged writes are missing: {dict(lost)}")
        if lost["no cause"]:
            self.breach(f"{lost['no cause']} acknowledged writes are missing without a failover of their primary")
        return dict(lost)

    def judge_shut(self, scope, acks):
        """Each promotion shut the scope. What the replaced primary had acknowledged, and may have been lost with its
        raises, is at least a jump below all that its successor accepted."""
        for one in self.failovers:
            old = [term for at, s, _, port, term in acks if s == scope and port == one["old"] and at < one["until"] + 10]
            new = [term for at, s, _, port, term in acks if s == scope and port == one["new"] and one["at"] < at < one["until"]]
            # Patroni may fail over again by itself, and that primary can be the old one.
            old = [term for term in old if not new or term <= max(new)]
            told = one["probes"].get(scope, "").startswith("TG004") or any(
                s == scope and one["at"] < at < one["until"] for at, s in self.untrusted
            )
            one["shut"][scope] = "TG004" if told else "jump"
            if old and new and min(new) < max(old) + JUMP:
                self.breach(
                    f"after {one['fault']} at {one['old']} term {min(new)} of {scope} was accepted, after {max(old)}: the scope was not"
                    " shut"
                )

    def explain(self, at, scope, payload, port):
        """What there is to know of a write that should not be missing; the nodes' logs are kept."""
        near = [(one["fault"], one["old"], round(at - one["at"], 2)) for one in self.failovers if abs(at - one["at"]) < 20]
        print(
            f"    missing: {payload} of {scope}, acknowledged by port {port}; failovers near it (fault, old port, seconds): {near}",
            flush=True,
        )
        self.keep_logs = True

    def stop(self):
        self.over = True
        if self.keep_logs:
            kept = tempfile.mkdtemp(prefix="termgate-patroni-logs.")
            for log in (*self.cluster.folder.glob("*.log"), *self.cluster.folder.glob("n*/log")):
                shutil.copy(log, f"{kept}/{log.parent.name}-{log.name}")
            print(f"    the logs are in {kept}", flush=True)
        for proxy in self.proxies:
            proxy.kill()
            proxy.wait()
        self.cluster.stop()


def percentiles(values):
    values = sorted(values)
    return (
        {"p50": round(statistics.median(values), 2), "p95": values[min(len(values) - 1, int(len(values) * 0.95))], "max": values[-1]}
        if values
        else {}
    )


def play(synchronous, count):
    faults = ["kill_postgres", "switchover", "kill_node", "cut_off"] + ([] if synchronous else ["lag"])
    if count < len(faults):
        faults = ["switchover", "kill_postgres"] if synchronous else ["switchover", "kill_postgres", "lag"]
    print(f"{'synchronous' if synchronous else 'asynchronous'}, {count} failovers, seed {options.seed}", flush=True)
    storm = Storm(options, synchronous)
    try:
        try:
            for scope in storm.terms:
                within(20, lambda s=scope: len(storm.terms[s]) > 1, f"two leaders of {scope}")
        except TimeoutError:
            print(storm.codes, storm.last)
            raise
        end = time.monotonic() + 60 * options.minutes
        for index in range(count):
            if storm.unsettled or time.monotonic() > end:
                break
            time.sleep(storm.random.uniform(0.3, 1.0))
            storm.fail_over(faults[index % len(faults)])
        lost = storm.judge()
    finally:
        storm.stop()
    result = {
        "mode": "synchronous" if synchronous else "asynchronous",
        "failovers": len(storm.failovers),
        "wanted": count,
        "failovers by Patroni itself": storm.moved,
        "acknowledged": len(storm.acks),
        "acquisitions": sum(map(len, storm.terms.values())),
        "lost": lost,
        "acknowledged with a warning": len(storm.local_only),
        "errors": dict(storm.codes),
        "failovers with losses": sum(1 for one in storm.failovers if one["lost"]),
        "scopes with losses": dict(Counter(one["shut"].get(scope, "synchronous") for one in storm.failovers for scope in one["lost"])),
        "scopes": dict(Counter(code for one in storm.failovers for code in one["shut"].values())),
        "stale terms": dict(Counter(code for one in storm.failovers for code in one["probes"].values())),
        "breaches": storm.breaches,
    }
    for fault in faults:
        chosen = [one for one in storm.failovers if one["fault"] == fault]
        result[fault] = {
            "n": len(chosen),
            "lost": sum(sum(one["lost"].values()) for one in chosen),
            "next write, direct": sorted(one["direct"] for one in chosen if "direct" in one),
            "next write, proxied": sorted(one["proxied"] for one in chosen if "proxied" in one),
            **{key: percentiles([one[key] for one in chosen if key in one]) for key in ("elected", "direct", "proxied")},
        }
    print(json.dumps(result, indent=1), flush=True)
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("termgate")
    parser.add_argument("--failovers", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=600, help="end after so long, and judge what has been")
    parser.add_argument("--synchronous", action="store_true")
    parser.add_argument("--asynchronous", action="store_true")
    parser.add_argument("--not-strict", action="store_true", help="synchronous_mode without synchronous_mode_strict (patroni_window.py)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json")
    options = parser.parse_args()
    modes = [True] * options.synchronous + [False] * options.asynchronous
    if not modes:
        modes = [True, False] if options.failovers > 3 else [False]
    results = [play(mode, options.failovers // len(modes)) for mode in modes]
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)
    # Fewer than wanted only where --minutes says so.
    sys.exit(1 if any(one["breaches"] or (one["failovers"] < one["wanted"] and options.minutes == 600) for one in results) else 0)
