#!/usr/bin/env python3
# Long: a case for each way in which COMMAND can go on.
"""`termgate run` and `termgate job` with real processes: what is stopped, killed, forks away, ignores TERM or
detaches itself is ended before another can hold the lease.

  pytest tests/live/leases/run_test.py [-k takeover]

On PostgreSQL (a server of its own) and on an SQLite file. That no two are ever inside at once is for inside.py.
"""
import json
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg2
import pytest

from checks import captured
from both_databases import BothDatabases
from given import PG_SERVER, TERMGATE

scratch = tempfile.TemporaryDirectory(prefix="termgate-run.")
os.chmod(scratch.name, 0o755)  # the server runs as another user
clean = {name: value for name, value in os.environ.items() if not name.startswith(("TERMGATE_", "PG"))}


def shell(script):
    return ["--", "sh", "-c", script]


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Run(BothDatabases):
    termgate, pg_server, folder, name = TERMGATE, PG_SERVER, scratch.name, "run"
    number = 0

    def both(self, play, at_once=True):
        # Both at once: nearly all of the time goes by in waiting for a lease to end. at_once=False: what measures.
        databases = []
        for database, url in (("postgresql", self.postgres), ("sqlite", self.sqlite)):
            Run.number += 1
            databases.append((database, url, f"scope {Run.number}"))
        with ThreadPoolExecutor(2 if at_once else 1) as threads:
            played = [(database, threads.submit(play, url, scope)) for database, url, scope in databases]
        for database, result in played:
            with self.subTest(database=database):
                result.result()

    def command(self, url, *words, **more):
        return captured([TERMGATE, *words], **{"env": dict(clean, TERMGATE_DB=url), "timeout": 60, "stdin": subprocess.DEVNULL, **more})

    def run_(self, url, scope, *words, **more):
        return self.command(url, "run", "--scope", scope, *words, **more)

    def begin(self, url, scope, *words, **more):
        child = subprocess.Popen(
            [TERMGATE, "run", "--scope", scope, *words],
            env=dict(clean, TERMGATE_DB=url),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            **more,
        )
        self.addCleanup(lambda: (child.poll() is None and child.kill(), child.wait(), child.stderr.close()))
        return child

    def file(self):
        handle, path = tempfile.mkstemp(dir=scratch.name)
        os.close(handle)
        os.unlink(path)
        return Path(path)

    def wait_for(self, what, seconds=20):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = what()
            if found:
                return found
            time.sleep(0.02)
        pytest.fail("it has not come to that")

    def number_in(self, path):
        return self.wait_for(lambda: path.exists() and path.read_text().strip().isdigit() and int(path.read_text()))

    def held(self, url, scope):
        first = self.begin(url, scope, *shell("sleep 30"))
        self.wait_for(lambda: self.lease(url, scope).get("held"))
        return first

    def runs(self, url, scope):
        return json.loads(self.command(url, "job", "list", "--scope", scope, "--json").stdout)

    def lease(self, url, scope):
        return json.loads(self.command(url, "lease", "show", scope, "--json").stdout)

    def test_passes_status_and_streams_through(self):
        def play(url, scope):
            for status in (0, 1, 5, 77):
                done = self.run_(url, scope, *shell(f"echo out; echo err >&2; exit {status}"))
                assert (done.returncode, done.stdout) == (status, "out\n"), done.stderr
                assert "err" in done.stderr
            assert self.run_(url, scope, *shell("kill -USR1 $$")).returncode == 128 + signal.SIGUSR1
            assert self.run_(url, scope, "--", "cat", stdin=None, input="through\n").stdout == "through\n"
            assert not self.lease(url, scope)["held"]

        self.both(play)

    def test_terminal(self):
        # COMMAND reads from the terminal, and Ctrl-C is its own.
        for script, keys, said, status in (
            ("read x; echo got $x; exit 6", b"hello\n", b"got hello", 6),
            ("trap 'echo told; exit 9' INT; read x", b"\x03", b"told", 9),
            ("sleep 30", b"\x03", b"^C", 130),
        ):
            pid, terminal = pty.fork()
            if pid == 0:
                os.execve(
                    TERMGATE,
                    ["termgate", "run", "--scope", "terminal", "--", "sh", "-c", "echo begun; " + script],
                    dict(clean, TERMGATE_DB=self.sqlite),
                )
            heard = b""
            while b"begun" not in heard:
                heard += os.read(terminal, 1000)
            time.sleep(0.3)
            os.write(terminal, keys)
            try:
                while more := os.read(terminal, 1000):
                    heard += more
            except OSError:
                pass  # its other end was closed
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == status
            assert said in heard
            os.close(terminal)

    def test_environment(self):
        def play(url, scope):
            done = self.run_(
                url, scope, "--job", "j", *shell('printf "%s|%s|%s|%s" "$TERMGATE_SCOPE" "$TERMGATE_TERM" "$TERMGATE_RUN_ID" "$PGOPTIONS"')
            )
            named, term, run, options = done.stdout.split("|")
            assert named == scope
            assert int(term) == self.lease(url, scope)["term"]
            assert run
            assert options == f"-c termgate.scope={scope.replace(' ', chr(92) + ' ')} -c termgate.term={term}"
            assert self.run_(url, scope, "--no-pgoptions", *shell('printf "%s" "$PGOPTIONS"')).stdout == ""

        self.both(play)
        # A psql inside is fenced, and one that has outlived its lease is refused.
        self.command(self.postgres, "exec", "--scope", "ddl", "--term", "1", "CREATE TABLE fenced (n int)")
        scope = "fenced tables"
        subprocess.run(
            ["psql", "-Xqd", self.postgres, "-c", f"SELECT termgate.protect('fenced', scope => '{scope}')"], check=True, capture_output=True
        )
        psql = f"psql -XqAt -v ON_ERROR_STOP=1 '{self.postgres}' -c 'INSERT INTO fenced VALUES (1)'"
        assert self.run_(self.postgres, scope, *shell(psql)).returncode == 0
        # By SQL, which notifies nobody: `lease force-release` is heard at once, and COMMAND ended.
        taken = f"SELECT termgate.force_release('{scope}', 'operator', 'test')"
        done = self.run_(self.postgres, scope, *shell(f'PGOPTIONS= psql -Xqd "{self.postgres}" -c "{taken}" >/dev/null; {psql}'))
        assert "TG001" in done.stderr

    def test_command_is_scheduled_as_its_caller(self):
        # The watchdog may have real-time priority; COMMAND must not inherit it.
        done = captured(
            ["nice", "-n", "7", TERMGATE, "run", "--scope", "nice", *shell("nice; ps -o cls= -p $$")],
            env=dict(clean, TERMGATE_DB=self.sqlite),
            timeout=60,
        )
        assert done.stdout.split() == [str(7 + os.getpriority(os.PRIO_PROCESS, 0)), "TS"], done.stderr

    def test_bad_input(self):
        url = self.sqlite
        for words, status in (
            (["--", "/no/such/command"], 127),
            (["--", "/"], 126),
            ([], 102),
            (["--ttl", "0s", "--", "true"], 102),
            (["--ttl", "-1s", "--", "true"], 102),
            (["--ttl", "366d", "--", "true"], 102),
            (["--once-per", "0s", "--", "true"], 102),
            (["--wait", "soon", "--", "true"], 102),
            (["--nonsense", "--", "true"], 102),
            (["--leave-signal", "KILL", "--", "true"], 102),
            (["--", ""], 102),
        ):
            with self.subTest(words=words):
                done = self.run_(url, "bad", *words)
                assert done.returncode == status, done.stderr
                assert done.stderr.startswith("termgate: "), done.stderr
        assert self.run_(url, "", "--", "true").returncode == 109
        assert self.run_("sqlite:/no/such/folder/x.db", "s", "--", "true").returncode == 101
        assert not self.lease(url, "bad").get("held")

    def test_hostile_scope(self):
        def play(url, scope):
            hostile = scope + " '\"; $(touch x) \\ -c role=postgres {}"
            done = self.run_(url, hostile, *shell('printf "%s" "$TERMGATE_SCOPE"'))
            assert (done.returncode, done.stdout) == (0, hostile), done.stderr

        self.both(play)

    def test_another_holds_it(self):
        def play(url, scope):
            first = self.held(url, scope)
            done = self.run_(url, scope, *shell("echo inside"))
            assert (done.returncode, done.stdout) == (104, "")
            assert "under term" in done.stderr
            # With --once-per that is no failure.
            assert self.run_(url, scope, "--once-per", "1d", *shell("echo inside")).returncode == 0
            waiter = self.begin(url, scope, "--wait", "20s", *shell("exit 3"))
            time.sleep(0.3)
            first.send_signal(signal.SIGTERM)  # passed through to COMMAND
            assert first.wait(20) == 128 + signal.SIGTERM
            assert waiter.wait(20) == 3

        self.both(play)

    # The ways in which a child outlives its parent. $0 is where its number goes.
    detached = {
        "ignores TERM": 'trap "" TERM INT HUP; echo $$ > $0; while :; do sleep 0.05; done',
        "double fork": '(trap "" TERM; sh -c "echo \\$\\$ > $0; trap \\"\\" TERM; while :; do sleep 0.05; done" & ) ; sleep 60',
        "setsid": 'setsid sh -c "trap \\"\\" TERM; echo \\$\\$ > $0; while :; do sleep 0.05; done" & sleep 60',
        "fills its output": 'echo $$ > $0; exec yes > /dev/null',
    }

    def children_of(self, parent):
        found = []
        for status in Path("/proc").glob("[0-9]*/stat"):
            try:
                if int(status.read_text().rsplit(")", 1)[1].split()[1]) == parent:
                    found.append(int(status.parent.name))
            except OSError:
                pass  # it has ended
        return found

    def outlive(self, url, scope, script, harm, ttl="2s"):
        path = self.file()
        first = self.begin(url, scope, "--ttl", ttl, "--", "sh", "-c", script, str(path))
        child = self.number_in(path)
        term = self.lease(url, scope)["term"]
        harm(first)
        # The next one waits for the lease. What it finds at its first moment: nothing of the one before.
        look = shell(f"kill -0 {child} 2>/dev/null && echo alive; echo $TERMGATE_TERM")
        second = self.run_(url, scope, "--wait", "30s", "--ttl", "10s", *look)
        state = alive(child)
        assert second.returncode == 0, second.stderr
        assert int(second.stdout.split()[-1]) > term
        assert not state, f"{scope}: a child has outlived its lease"
        return first

    def test_nothing_outlives_its_lease(self):
        # [complaint] A child that outlives its lock. All at once: what takes long is the end of a lease.
        def play(url, scope):
            with ThreadPoolExecutor(1 + len(self.detached)) as threads:
                out = lambda name, script, harm: threads.submit(self.outlive, url, f"{scope} {name}", script, harm)
                stopped = out("stopped", self.detached["setsid"], lambda first: first.send_signal(signal.SIGSTOP))
                for one in [out(name, script, lambda first: first.kill()) for name, script in self.detached.items()]:
                    one.result()
                first = stopped.result()
            first.send_signal(signal.SIGCONT)
            assert first.wait(20) == 105

        self.both(play)

    def test_pkill_reaches_termgate_alone(self):
        # `pkill -9 termgate` kills every process with that in its name, -f every one with it in its command line.
        def play(url, scope):
            def harm(first):
                watchdog = self.children_of(first.pid)
                assert len(watchdog) == 1
                assert "termgate" not in Path(f"/proc/{watchdog[0]}/comm").read_text()
                assert Path(f"/proc/{watchdog[0]}/cmdline").read_bytes().rstrip(b"\0") == f"tg-watchdog {first.pid}".encode()
                subprocess.run(["pkill", "-9", "-f", f"run --scope {re.escape(scope)} --ttl"], check=True)

            first = self.outlive(url, scope, self.detached["setsid"], harm)
            assert first.wait(20) == -signal.SIGKILL

        self.both(play)

    def test_all_of_it_stopped_past_the_ttl(self):
        # As when a machine was suspended: nobody could act in time. What wakes up has 100 ms.
        def play(url, scope):
            path = self.file()
            first = self.begin(url, scope, "--ttl", "1s", "--", "sh", "-c", self.detached["ignores TERM"], str(path))
            child = self.number_in(path)
            watchdog = int(Path(f"/proc/{child}/stat").read_text().rsplit(")", 1)[1].split()[1])
            for pid in (child, first.pid, watchdog):
                os.kill(pid, signal.SIGSTOP)
            time.sleep(1.3)
            begun = time.monotonic()
            os.kill(watchdog, signal.SIGCONT)
            for pid in (child, first.pid):
                try:
                    os.kill(pid, signal.SIGCONT)
                except ProcessLookupError:
                    pass  # the watchdog was faster
            self.wait_for(lambda: not alive(child), 5)
            took = time.monotonic() - begun
            print(f"ended {took * 1000:.0f} ms after waking ", end="", file=sys.stderr)
            # A crowded machine wakes it up late.
            assert took < 2.0
            assert first.wait(20) == 105

        self.both(play, at_once=False)

    def test_a_lease_is_trusted_no_longer_than_the_database_keeps_it(self):
        # [F4] Renewals go on in a new session. An answer that comes late, by more than the margin, counts from when it was requested.
        path, scope = self.file(), "late answers"
        first = self.begin(self.postgres, scope, "--ttl", "4s", *shell(f"echo $$ > {path}; exec sleep 60"))
        child = self.number_in(path)
        admin = psycopg2.connect(self.postgres)
        self.addCleanup(admin.close)
        admin.autocommit, cursor = True, admin.cursor()

        def lease(what):
            cursor.execute(f"SELECT {what} FROM termgate.leases WHERE scope = '{scope}'")
            return cursor.fetchone()[0]

        def renewed():
            before = lease("renewed_at")
            self.wait_for(lambda: lease("renewed_at") > before)

        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
        renewed()
        late = "AFTER UPDATE ON termgate.leases FOR EACH ROW WHEN (NEW.scope = 'late answers') EXECUTE FUNCTION late()"
        cursor.execute("CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(1.2); RETURN NULL; END'")
        cursor.execute(f"CREATE TRIGGER late {late}")
        renewed()
        cursor.execute("BEGIN; LOCK TABLE termgate.leases IN SHARE ROW EXCLUSIVE MODE")
        self.wait_for(lambda: not alive(child))
        assert lease("expires_at > clock_timestamp()"), "COMMAND went on for longer than its lease"
        cursor.execute("ROLLBACK; DROP FUNCTION late() CASCADE")
        assert first.wait(20) == 105

    def test_watchdog_killed(self):
        def play(url, scope):
            def harm(first):
                children = self.children_of(first.pid)
                assert len(children) == 1
                os.kill(children[0], signal.SIGKILL)

            first = self.outlive(url, scope, self.detached["setsid"], harm)
            assert first.wait(20) == 101

        self.both(play)

    def test_what_is_left_behind_is_ended_before_the_lease_is_given_back(self):
        def play(url, scope):
            path = self.file()
            begun = time.monotonic()
            leaves = (
                'setsid sh -c "trap \\"\\" TERM; echo \\$\\$ > $0; sleep 60; sleep 60" & while ! [ -s $0 ]; do sleep 0.02; done; exit 4'
            )
            done = self.run_(url, scope, "--ttl", "2s", "--", "sh", "-c", leaves, str(path))
            assert done.returncode == 4, done.stderr
            assert not alive(self.number_in(path))
            assert time.monotonic() - begun < 10

        self.both(play)

    def test_forced_release_ends_it(self):
        # [complaint] Loss that nobody is told of.
        def play(url, scope):
            path = self.file()
            first = self.begin(url, scope, "--ttl", "3s", "--job", "j", "--", "sh", "-c", self.detached["ignores TERM"], str(path))
            child = self.number_in(path)
            self.command(url, "lease", "force-release", "--scope", scope, "--reason", "test")
            assert first.wait(5) == 105
            assert not alive(child)
            assert [run["status"] for run in self.runs(url, scope)] == ["lost"]

        self.both(play)

    def test_a_hand_over_sends_a_signal_and_waits_for_the_end(self):
        def play(url, scope):
            path = self.file()
            script = f"trap 'sleep 2; echo done > {path}.done; exit 7' USR1; echo $$ > {path}; while :; do sleep 0.1; done"
            first = self.begin(url, scope, "--ttl", "1s", "--leave-signal", "USR1", *shell(script))
            self.number_in(path)
            second = self.begin(
                url, scope, "--ttl", "10s", "--wait", "30s", *shell(f"test -e {path}.done && echo $$ > {path}.next; sleep 60")
            )
            done = self.command(url, "lease", "hand-over", scope, "--drain", "20s", "--json")
            assert first.wait(10) == 7  # it had twice its TTL to end in order
            receipt = json.loads(done.stdout)
            assert (done.returncode, receipt["state"], receipt["next_term"]) == (0, "taken", 2), done
            self.number_in(Path(f"{path}.next"))
            second.terminate()
            assert second.wait(10) == 128 + signal.SIGTERM
            assert "gets signal" in first.stderr.read()

        self.both(play)

    def test_resume(self):
        def play(url, scope):
            beat, told = f"'{TERMGATE}' job beat --checkpoint", 'echo "${TERMGATE_CHECKPOINT-none}"'
            for more, status, checkpoint in (
                (f"; {beat} 'page 1' && {beat} 'page 2' && exit 9", 9, "none\n"),
                ("", 0, "page 2\n"),
                ("", 0, "none\n"),
            ):
                done = self.run_(url, scope, "--job", "export", "--resume", *shell(told + more))
                assert (done.returncode, done.stdout) == (status, checkpoint), done.stderr
            runs = self.runs(url, scope)
            assert [(run["status"], run["exit_code"]) for run in runs] == [("completed", 0), ("completed", 0), ("failed", 9)]
            assert self.shown(url, runs[2]["run_id"])["checkpoint"] == "page 2"

        self.both(play)

    def test_job_by_hand(self):
        def play(url, scope):
            acquired = json.loads(self.command(url, "lease", "acquire", "--scope", scope, "--owner", "me", "--ttl", "20s", "--json").stdout)
            leads = ("--scope", scope, "--term", str(acquired["term"]), "--owner", "me")
            started = self.command(url, "job", "start", "--job", "j", *leads)
            run = started.stdout.strip()
            assert started.returncode == 0, started.stderr
            assert self.command(url, "job", "beat", "--run", run, "--checkpoint", "a").returncode == 0
            renewed = self.command(url, "job", "beat", "--run", run, "--ttl", "60s", "--json")
            assert json.loads(renewed.stdout)["beat_within_ms"] > 50_000
            assert self.lease(url, scope)["remaining_ms"] > 50_000
            # Somebody else cancels a run: its holder hears of it with the next beat.
            other = self.command(url, "job", "start", "--job", "other", *leads).stdout.strip()
            assert self.command(url, "job", "cancel", other, "--reason", "wrong month").returncode == 0
            assert self.command(url, "job", "beat", "--run", other).returncode == 5
            cancelled = self.shown(url, other)
            assert (cancelled["status"], cancelled["detail"].endswith("wrong month")) == ("cancelled", True)
            assert self.command(url, "job", "cancel", other).returncode == 5
            assert self.command(url, "job", "cancel").returncode == 2
            self.command(url, "lease", "force-release", "--scope", scope, "--reason", "test")
            # [complaint] A lost run that is shown as running for ever.
            assert self.shown(url, run)["status"] == "lost"
            assert self.command(url, "job", "beat", "--run", run, "--ttl", "60s").returncode in (3, 5)
            assert self.command(url, "job", "finish", "--run", run, "--exit-code", "0").returncode in (3, 5)
            for bad in (
                ["job", "beat", "--run", "x' OR 1=1"],
                ["job", "show", "--run", ""],
                ["job", "finish", "--run", run, "--status", "done"],
                ["job", "start", "--job", "", "--scope", scope, "--term", "1"],
                ["job", "beat"],
                ["job", "finish", "--run", run, "--exit-code", "999"],
            ):
                done = self.command(url, *bad)
                assert done.returncode != 0, bad
                assert done.stderr.startswith("termgate: "), done.stderr

        self.both(play)

    def test_cancelled_from_outside(self):
        # A command that never beats is ended too: termgate beats for it.
        def play(url, scope):
            path = self.file()
            first = self.begin(url, scope, "--ttl", "1s", "--job", "j", "--", "sh", "-c", self.detached["setsid"], str(path))
            child = self.number_in(path)
            run = self.runs(url, scope)[0]["run_id"]
            self.wait_for(lambda: self.shown(url, run)["heartbeat_age_ms"] < 500)
            assert self.command(url, "job", "cancel", run, "--reason", "wrong month").returncode == 0
            assert first.wait(10) == 105
            assert not alive(child)
            assert "was cancelled" in first.stderr.read()
            shown = self.shown(url, run)
            assert (shown["status"], shown["detail"].endswith("wrong month")) == ("cancelled", True)
            assert not self.lease(url, scope)["held"]
            # A command that finishes its own run goes on.
            done = self.run_(
                url, scope, "--ttl", "1s", "--job", "j", *shell(f"'{TERMGATE}' job finish --exit-code 0 && sleep 1 && echo went on")
            )
            assert (done.returncode, done.stdout) == (0, "went on\n"), done.stderr

        self.both(play)

    def shown(self, url, run):
        return json.loads(self.command(url, "job", "show", run, "--json").stdout)

    def ask(self, url, scope, *words):
        done = self.command(url, "job", "request", "--job", "j", "--scope", scope, *words)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def test_a_request_is_answered_by_one_of_two(self):
        def play(url, scope):
            path = self.file()
            script = f'echo "$TERMGATE_REQUEST $TERMGATE_RUN_ID ${{TERMGATE_CHECKPOINT-none}}" >> {path}; '
            script += f"'{TERMGATE}' job beat --checkpoint 'page 3'; exit $(cat {path}.status 2>/dev/null || echo 0)"
            hosts = [self.begin(url, scope, "--ttl", "1s", "--job", "j", "--on-request", *shell(script)) for _ in range(2)]
            waits = lambda run: self.wait_for(lambda: self.shown(url, run)["completed_at"])
            # Nobody has asked: nothing runs, and nobody holds the lease.
            time.sleep(1)
            assert not path.exists()
            assert self.runs(url, scope) == []
            Path(f"{path}.status").write_text("9")
            first = self.ask(url, scope)
            waits(first)
            run = self.shown(url, first)
            assert (run["status"], run["exit_code"], run["request"]) == ("failed", 9, "run")
            Path(f"{path}.status").write_text("0")
            # A dry run neither takes the checkpoint nor completes the job.
            dry = self.ask(url, scope, "--dry-run")
            waits(dry)
            resumed = self.ask(url, scope, "--resume", "--reason", "the disk is empty again", "--actor", "alice@desk")
            waits(resumed)
            assert self.shown(url, resumed)["detail"] == "requested by alice@desk: the disk is empty again"
            assert path.read_text() == f"run {first} none\ndry-run {dry} none\nresume {resumed} page 3\n"
            terms = [self.shown(url, one)["term"] for one in (first, dry, resumed)]
            assert terms == sorted(set(terms))
            for host in hosts:
                assert host.poll() is None
                host.send_signal(signal.SIGTERM)
            assert [host.wait(10) for host in hosts] == [143, 143], hosts[0].stderr.read()
            assert not self.lease(url, scope)["held"]

        self.both(play)

    def test_a_request_waits_and_may_be_withdrawn(self):
        def play(url, scope):
            # While a run is in progress, and while nobody answers.
            running = self.begin(url, scope, "--job", "j", *shell("read x < /dev/zero & sleep 60"))
            self.wait_for(lambda: self.command(url, "job", "list", "--scope", scope, "--status", "started").stdout.count(scope))
            asked = self.ask(url, scope, "--dry-run")
            again = self.command(url, "job", "request", "--job", "j", "--scope", scope)
            assert (again.returncode, asked in again.stderr) == (1, True), again.stderr
            assert json.loads(self.command(url, "job", "request", "--job", "j", "--scope", scope, "--json").stdout)["run_id"] == asked
            assert "requested" in self.command(url, "job", "list", "--scope", scope).stdout
            path = self.file()
            host = self.begin(url, scope, "--job", "j", "--on-request", *shell(f"echo $TERMGATE_REQUEST >> {path}"))
            time.sleep(1.5)
            assert not path.exists()
            running.send_signal(signal.SIGTERM)
            running.wait(10)
            self.wait_for(lambda: self.shown(url, asked)["status"] == "completed")
            assert path.read_text() == "dry-run\n"
            # COMMAND has ended and its answer may not be over: then the status is COMMAND's.
            host.send_signal(signal.SIGTERM)
            assert host.wait(10) in (0, 143)
            # Withdrawn: who answers later finds nothing.
            asked = self.ask(url, scope)
            assert self.command(url, "job", "beat", "--run", asked).returncode == 5
            assert self.command(url, "job", "finish", "--run", asked, "--exit-code", "0").returncode == 5
            assert self.command(url, "job", "cancel", "--run", asked, "--reason", "a mistake").returncode == 0
            assert self.shown(url, asked)["status"] == "cancelled"
            # A run that nobody asked for answers no request.
            asked = self.ask(url, scope)
            done = self.run_(url, scope, "--job", "j", *shell('echo "${TERMGATE_REQUEST-none}"'))
            assert (done.returncode, done.stdout) == (0, "none\n"), done.stderr
            assert self.shown(url, asked)["status"] == "requested"

        self.both(play)

    def test_who_answers_dies(self):
        def play(url, scope):
            path = self.file()
            line = ["--ttl", "1s", "--job", "j", "--on-request", *shell(f"echo $$ > {path}.new; mv {path}.new {path}; sleep 60")]
            host = self.begin(url, scope, *line)
            asked = self.ask(url, scope)
            child = self.number_in(path)
            # The parent alone: its child passes TERM on, and nothing is left.
            host.kill()
            host.wait(10)
            self.wait_for(lambda: not alive(child))
            self.wait_for(lambda: self.shown(url, asked)["status"] in ("failed", "lost"))
            # All of it: the run is lost when its lease is over, and nobody begins it again.
            path.unlink()
            host = self.begin(url, scope, *line, start_new_session=True)
            asked = self.ask(url, scope)
            child = self.number_in(path)
            os.killpg(host.pid, signal.SIGKILL)
            host.wait(10)
            self.wait_for(lambda: not alive(child))
            self.wait_for(lambda: self.shown(url, asked)["status"] == "lost")
            path.unlink()
            other = self.begin(url, scope, *line)
            time.sleep(2)
            assert not path.exists()
            # A signal while COMMAND runs: its status.
            self.ask(url, scope)
            self.number_in(path)
            other.send_signal(signal.SIGTERM)
            assert other.wait(10) == 143

        self.both(play)

    def test_bad_requests(self):
        def play(url, scope):
            for bad in (
                ["run", "--scope", scope, "--on-request", "--once-per", "1d", *shell("true")],
                ["run", "--scope", scope, "--on-request", "--shards", "2", *shell("true")],
                ["run", "--scope", scope, "--on-request", "--wait", "1s", *shell("true")],
                ["run", "--scope", scope, "--on-request", "--dry-run", *shell("true")],
                ["run", "--scope", scope, "--on-request", "--source", "file:///x", *shell("true")],
            ):
                done = self.command(url, *bad)
                assert (done.returncode, done.stderr.count("--on-request")) == (102, 1), (bad, done.stderr)
            for bad in (["--job", "j"], ["--scope", scope], ["--job", "", "--scope", scope]):
                assert self.command(url, "job", "request", *bad).returncode != 0, bad
            both = self.command(url, "job", "request", "--job", "j", "--scope", scope, "--dry-run", "--resume")
            assert both.returncode == 2, both.stderr

        self.both(play)

    def test_dry_run_writes_nothing(self):
        def play(url, scope):
            path = self.file()
            line = ["--job", "j", "--resume", "--once-per", "1d", *shell(f"echo x >> {path}")]

            def dry(*words):
                done = self.run_(url, scope, "--dry-run", *words)
                return done.returncode, done.stdout

            assert dry(*line) == (0, f'"{scope}": would run sh, from the beginning\n')
            assert not path.exists()
            assert "held" not in self.lease(url, scope)
            assert self.runs(url, scope) == []
            # A failed run's checkpoint.
            beat = shell(f"'{TERMGATE}' job beat --checkpoint 'page 7'; exit 1")
            assert self.run_(url, scope, "--job", "j", *beat).returncode == 1
            assert dry(*line) == (0, f'"{scope}": would run sh, from checkpoint "page 7"\n')
            assert self.run_(url, scope, *line).returncode == 0
            status, said = dry(*line)
            assert status == 0
            assert "would not run; it is due again in" in said
            # Another holds it.
            first = self.held(url, scope)
            before = self.lease(url, scope)
            status, said = dry("--json", *shell("true"))
            assert (status, json.loads(said)["why"], json.loads(said)["term"]) == (104, "held", str(before["term"]))
            assert self.lease(url, scope)["term"] == before["term"]
            first.send_signal(signal.SIGTERM)
            first.wait(20)
            assert len(path.read_text().split()) == 1

        self.both(play)

    def shards(self, url, scope, host, count, script, *words):
        return self.begin(url, scope, "--ttl", "2s", "--shards", str(count), *words, *shell(f"host={host}; {script}"))

    def test_shards_each_once_and_spread(self):
        def play(url, scope):
            path = self.file()
            script = f'echo "$host $TERMGATE_SHARD $TERMGATE_SHARDS $TERMGATE_SCOPE" >> {path}; sleep 1'
            hosts = [self.shards(url, scope, host, 6, script, "--once-per", "1d") for host in "abc"]
            assert [one.wait(60) for one in hosts] == [0, 0, 0], [one.stderr.read() for one in hosts]
            lines = [line.split(" ", 3) for line in path.read_text().splitlines()]
            assert sorted(line[1] for line in lines) == list("012345")
            assert {line[2] for line in lines} == {"6"}
            assert {line[3] for line in lines} == {f"{scope}/shard/{i}" for i in range(6)}
            assert len({line[0] for line in lines}) >= 2, lines
            # The same line again: nothing is due.
            assert self.shards(url, scope, "a", 6, script, "--once-per", "1d").wait(30) == 0
            assert len(path.read_text().splitlines()) == 6

        self.both(play)

    def test_shards_that_fail(self):
        def play(url, scope):
            path = self.file()
            one = self.shards(url, scope, "a", 3, f'echo $TERMGATE_SHARD >> {path}; [ "$TERMGATE_SHARD" != 1 ] || exit 7')
            assert one.wait(30) == 7
            assert sorted(path.read_text().split()) == ["0", "1", "2"]
            assert "shard 1 ended with status 7" in one.stderr.read()
            # Another run of the line tries the failed ones again, and whoever stops it gets its signal's status.
            two = self.shards(url, scope, "b", 2, f"echo begun >> {path}; sleep 60")
            self.wait_for(lambda: "begun" in path.read_text())
            two.send_signal(signal.SIGTERM)
            assert two.wait(20) == 128 + signal.SIGTERM

        self.both(play)
        for words in (["--shards", "0"], ["--shards", "257"], ["--shards", "x"], ["--keep"], ["--shards", "2", "--wait", "1s"]):
            done = self.run_(self.sqlite, "bad shards", *words, "--", "true")
            assert done.returncode == 102, done.stderr
        assert self.run_(self.sqlite, "s" * 190, "--shards", "2", "--", "true").returncode == 109
        assert self.run_(self.sqlite, "shards", "--shards", "2", "--", "/no/such/command").returncode == 127

    def test_shards_move_between_hosts(self):
        # Each shard writes who runs it. A shard that is lost ends alone; a host that comes takes its share, one that dies is replaced.
        def play(url, scope):
            folder = Path(tempfile.mkdtemp(dir=scratch.name))
            script = (
                f'echo "$host $$" > {folder}/$TERMGATE_SHARD.new; mv {folder}/$TERMGATE_SHARD.new {folder}/$TERMGATE_SHARD; exec sleep 600'
            )

            def at():
                found = {}
                for i in range(4):
                    path = folder / str(i)
                    if path.exists():
                        host, pid = path.read_text().split()
                        if alive(int(pid)):
                            found[i] = (host, int(pid))
                return found

            def spread(**wanted):
                held = [host for host, _ in at().values()]
                return all(held.count(host) == count for host, count in wanted.items()) and at()

            a = self.shards(url, scope, "a", 4, script, "--keep")
            before = self.wait_for(lambda: spread(a=4), 40)
            b = self.shards(url, scope, "b", 4, script, "--keep")
            both = self.wait_for(lambda: spread(a=2, b=2), 60)
            assert all(both[i] == before[i] for i in both if both[i][0] == "a"), "a shard that stayed was started again"
            # One shard's lease is taken away: that one starts anew, the others go on.
            self.command(url, "lease", "force-release", "--scope", f"{scope}/shard/0", "--reason", "test")
            self.wait_for(lambda: at().get(0, both[0]) != both[0], 60)
            assert {i: at()[i] for i in (1, 2, 3)} == {i: both[i] for i in (1, 2, 3)}
            # The host dies: its shards end, though nobody could ask them to, and the other takes them.
            mine = [pid for host, pid in at().values() if host == "a"]
            a.kill()
            self.wait_for(lambda: not any(alive(pid) for pid in mine), 20)
            self.wait_for(lambda: spread(b=4), 60)
            b.send_signal(signal.SIGTERM)
            assert b.wait(30) == 128 + signal.SIGTERM
            assert at() == {}

        self.both(play)
