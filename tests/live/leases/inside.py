#!/usr/bin/env python3
"""[F2] Never two inside: processes that hold one lease by a handle, or run a command under it, are stopped, killed, and
their clocks stepped; the server is restarted. What trusted its lease must never have done so beside another.

  inside.py HOLDER TERMGATE_COMMAND SERVER_SCRIPT [--hosts 2] [--takeovers 20] [--ttl-ms 1000]
            [--kind handle|run] [--database postgresql|sqlite|sqlserver]

Without options: two hosts, 20 takeovers each of handles and of commands, on PostgreSQL with steps of the clock and restarts of
the server, and on an SQLite file. `--hosts 50 --takeovers 1000` is for by hand.
SQL Server: the scratch database that TERMGATE_TEST_SQLSERVER names, whose server is left alone.
Judged by CLOCK_BOOTTIME, which is one for all processes of a machine.
"""
import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

FAKETIME = next((str(path) for path in Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")), None)


def sh(*words, env=None):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, env=env)
    if done.returncode != 0:
        raise AssertionError(f"{words}: {done.stdout}{done.stderr}")
    return done.stdout.strip()


class Play:
    def __init__(self, options, folder, kind, database, hosts, takeovers):
        self.options, self.folder, self.kind, self.database = options, folder, kind, database
        self.count, self.takeovers = hosts, takeovers
        self.chance = random.Random(f"{os.environ.get('TERMGATE_TEST_SEED', 1)} {kind} {database} {hosts}")
        self.log, self.clock = folder / f"{kind}-{database}.log", folder / f"{kind}-{database}.clock"
        self.log.touch()
        self.clock.write_text("+0\n")
        self.clock.chmod(0o644)
        self.clean = {name: value for name, value in os.environ.items() if not name.startswith(("TERMGATE_", "PG"))}
        self.server = folder / f"{kind}-{database}-server"
        self.restarts = self.steps = self.kills = self.stops = self.locked = 0
        if database == "postgresql":
            self.server.mkdir()
            self.server.chmod(0o755)
            self.url = self.start()
        elif database == "sqlserver":
            self.url = os.environ["TERMGATE_TEST_SQLSERVER"]
        else:
            self.url = f"sqlite:{folder}/{kind}.db"
        # Written once: a shell reads its script while it runs it.
        self.script = folder / f"{kind}-{database}.sh"
        self.script.write_text('trap "" TERM\nwhile :; do read up _ </proc/uptime; echo "0 $TERMGATE_TERM $up" >>"$1"; sleep 0.02; done\n')
        sh(options.termgate, "init", "--db", self.url)

    def start(self):
        return sh(self.options.server_script, "start", "15", self.server, "fsync=off", "max_connections=400")

    def begin(self):
        env = dict(self.clean)
        # SQLite has no clock but its process's own.
        if self.database == "postgresql" and FAKETIME and self.chance.random() < 0.5:
            env.update(
                LD_PRELOAD=FAKETIME,
                FAKETIME_TIMESTAMP_FILE=str(self.clock),
                FAKETIME_NO_CACHE="1",
                FAKETIME_DONT_FAKE_MONOTONIC="1",
                NO_FAKE_STAT="1",
            )
        if self.kind == "handle":
            words = [self.options.holder, self.url, "inside", str(self.log), str(self.options.ttl_ms)]
        else:
            # Detaches itself and ignores TERM, as the worst of commands.
            words = [self.options.termgate, "run", "--db", self.url, "--scope", "inside", "--ttl", f"{self.options.ttl_ms}ms"]
            words += ["--wait", "1h", "--"]
            words += ["sh", "-c", f"setsid sh {self.script} {self.log} & sleep 10000"]
        return subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)

    def lines(self, last_bytes=None):
        """Terms and moments of the log, or of its end."""
        with self.log.open("rb") as log:
            log.seek(max(0, log.seek(0, 2) - last_bytes) if last_bytes else 0)
            text = log.read().decode(errors="replace")
        for line in text.splitlines():
            words = line.split()
            if len(words) != 3 or not words[1].isdigit():
                continue
            try:
                yield int(words[1]), int(words[2]) if self.kind == "handle" else int(float(words[2]) * 1000)
            except ValueError:
                continue  # two wrote at once

    def lease(self):
        done = subprocess.run(
            [self.options.termgate, "lease", "show", "inside", "--db", self.url, "--json"], capture_output=True, text=True, env=self.clean
        )
        try:
            return json.loads(done.stdout)
        except ValueError:
            return {}

    def harm(self, holder, hosts, stopped):
        chance = self.chance.random()
        if chance < 0.45 or (chance >= 0.9 and self.database != "postgresql"):
            holder.kill()
            self.kills += 1
        elif chance < 0.9:
            holder.send_signal(signal.SIGSTOP)
            self.stops += 1
            stopped.append(holder)
            hosts[hosts.index(holder)] = self.begin()
        if self.database == "postgresql" and self.chance.random() < 0.1:
            self.clock.with_suffix(".new").write_text(f"{self.chance.choice(['+', '-'])}{self.chance.randint(1, 100000)}\n")
            os.replace(self.clock.with_suffix(".new"), self.clock)
            self.steps += 1
        if self.database == "postgresql" and 0.9 <= chance:
            sh(self.options.server_script, "stop", self.server, "immediate" if self.chance.random() < 0.5 else "fast")
            time.sleep(self.chance.random() * 2)
            assert self.start() == self.url
            self.restarts += 1
        while len(stopped) > 3:
            one = stopped.pop(0)
            one.send_signal(signal.SIGCONT)
            time.sleep(0.05)
            one.kill()
            one.wait()
        return chance < 0.9 or self.database != "postgresql"

    def run(self):
        hosts, stopped, harmed = [self.begin() for _ in range(self.count)], [], set()
        begun = quiet = time.monotonic()
        try:
            while len(harmed) < self.takeovers:
                assert time.monotonic() - quiet < 120, "no takeover for two minutes"
                if self.database == "sqlite" and stopped and time.monotonic() - quiet > 5:
                    # One that was stopped inside its transaction keeps the file locked for everybody, until it goes on.
                    one = stopped.pop()
                    one.send_signal(signal.SIGCONT)
                    one.kill()
                    one.wait()
                    self.locked += 1
                    quiet = time.monotonic()
                hosts = [host if host.poll() is None else self.begin() for host in hosts]
                lease = self.lease()
                holder = next((host for host in hosts if f":{host.pid}:" in lease.get("owner", "")), None)
                if (
                    not lease.get("held")
                    or holder is None
                    or lease["term"] in harmed
                    or not any(term == lease["term"] for term, _ in self.lines(2000))
                ):
                    time.sleep(0.02)
                    continue
                harmed.add(lease["term"])
                quiet = time.monotonic()
                time.sleep(self.chance.random() * 0.2)
                if not self.harm(holder, hosts, stopped):
                    harmed.discard(lease["term"])  # it may still hold it
        finally:
            for host in hosts + stopped:
                host.kill()
            for host in hosts + stopped:
                host.wait()
        time.sleep(1.5)  # of a run whose parent was killed: its watchdog has ended all
        first, last = {}, {}
        for term, at in self.lines():
            first[term] = min(first.get(term, at), at)
            last[term] = max(last.get(term, at), at)
        order = sorted(first)
        assert len(order) >= self.takeovers, f"{len(order)} terms were seen inside"
        gaps = [first[after] - last[before] for before, after in zip(order, order[1:])]
        # /proc/uptime has hundredths.
        worst = min(gaps) + (10 if self.kind == "run" else 0)
        assert worst >= 0, f"two were inside together for {-worst} ms, at term {order[gaps.index(min(gaps)) + 1]}"
        print(
            (
                f"{self.kind} {self.database} hosts {self.count}: {len(order)} terms inside, never two; least gap {min(gaps)} ms;"
                f" {self.kills} kills, {self.stops} stops, {self.restarts} restarts, {self.steps} steps of the clock,"
                f" {self.locked} stopped with the file locked,"
                f" {time.monotonic() - begun:.0f} s"
            ),
            flush=True,
        )

    def end(self):
        if self.database == "postgresql":
            subprocess.run([self.options.server_script, "stop", self.server, "immediate"], capture_output=True)


def main():
    parser = argparse.ArgumentParser()
    for name in ("holder", "termgate", "server_script"):
        parser.add_argument(name)
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--takeovers", type=int, default=20)
    parser.add_argument("--ttl-ms", type=int, default=1000)
    parser.add_argument("--kind", choices=["handle", "run"])
    parser.add_argument("--database", choices=["postgresql", "sqlite", "sqlserver"])
    options = parser.parse_args()
    for name in ("holder", "termgate", "server_script"):
        setattr(options, name, os.path.abspath(getattr(options, name)))
    kinds = [options.kind] if options.kind else ["handle", "run"]
    databases = [options.database] if options.database else ["postgresql", "sqlite"]
    plays = [(kind, database) for kind in kinds for database in databases]
    with tempfile.TemporaryDirectory(prefix="termgate-inside.") as folder:
        os.chmod(folder, 0o755)

        def one(which):
            play = Play(options, Path(folder), *which, options.hosts, options.takeovers)
            try:
                play.run()
            finally:
                play.end()

        # Nearly all of the time goes by in waiting for a lease to end.
        with ThreadPoolExecutor(len(plays)) as threads:
            list(threads.map(one, plays))


if __name__ == "__main__":
    sys.exit(main())
