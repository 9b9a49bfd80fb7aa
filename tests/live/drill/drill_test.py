#!/usr/bin/env python3
# Long: a case for each wrong service.
"""[F1] [F2] `termgate drill`: services that are fenced pass, and each wrong one has a verdict of its own. Nothing
is left behind, however the drill ends.

  pytest tests/live/drill/drill_test.py [--long] [-k services]

Starts a PostgreSQL 15 of its own. The services are tests/live/drill/service.py, right or wrong in one way, and others
by the library and by the shell.
"""
import concurrent.futures
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time
import xml.etree.ElementTree
from pathlib import Path

import pytest

from both_databases import BothDatabases, sh
from checks import captured, eventually
from given import EXTENSION, LONG, PG_SERVER, PYTHON, ROOT, TERMGATE, free_port

HERE = Path(__file__).resolve().parent
SERVICE = [PYTHON, str(HERE / "service.py")]
EVIDENCE = "SELECT count(*) FROM entries WHERE term = $1 AND scope = $2"
scratch = tempfile.TemporaryDirectory(prefix="termgate-drill-test.")
os.chmod(scratch.name, 0o755)
environment = dict(
    {name: value for name, value in os.environ.items() if name != "TERMGATE_DB"},
    TMPDIR=scratch.name,
    TERMGATE_EXTENSION=EXTENSION,
    PATH=f"{Path(TERMGATE).parent}:{os.environ['PATH']}",
)
if subprocess.run(
    [PYTHON, "-c", "import psycopg, sqlite3; sqlite3.connect(':memory:').enable_load_extension"], capture_output=True
).returncode:
    pytest.skip(f"{PYTHON} has no psycopg or cannot load extensions into sqlite3", allow_module_level=True)


# Its second instance never leads.
ALONE = ["sh", "-c", "case $TERMGATE_DRILL_INSTANCE in 2) exec sleep 100;; esac; exec " + " ".join(SERVICE) + " right"]
ENTRIES = "CREATE TABLE entries (scope text, term bigint, instance text)"
# Leads by the shell: $term, until the lease is lost.
ELECTED = """
    while ! term=$(termgate lease acquire --scope "$TERMGATE_SCOPE" --owner "shell-$$" --ttl 1s 2>/dev/null | cut -f1) \\
        || [ -z "$term" ]; do sleep 0.05; done
    renew() { termgate lease renew --scope "$TERMGATE_SCOPE" --owner "shell-$$" --term "$term" --ttl 1s; }"""


def sql(url, *statements):
    return sh("psql", "-qXAt", url, *(word for statement in statements for word in ("-c", statement)))


def drill(url, scope, *words, command=SERVICE, timeout=120, **more):
    return captured(
        [TERMGATE, "drill", "--scope", scope, *words, "--", *command], env=dict(environment, TERMGATE_DB=url, **more), timeout=timeout
    )


def processes_with(text):
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if (
                entry.name.isdigit()
                and text.encode() in (entry / "environ").read_bytes()
                and "Z" not in (entry / "stat").read_text().rpartition(")")[2].split()[0]
            ):
                found.append((entry.name, (entry / "cmdline").read_bytes().replace(b"\0", b" ")))
        except OSError:
            pass
    return found


# Leases of seconds are waited for again and again: the rest of the verdicts is played in ./test --long.
long = pytest.mark.skipif(not LONG, reason="./test --long")


class Drill(BothDatabases):
    termgate, pg_server, folder, name = TERMGATE, PG_SERVER, scratch.name, "drill"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        tables = f"{ENTRIES}; CREATE TABLE counters (n bigint); INSERT INTO counters VALUES (0);"
        sql(cls.postgres, tables)
        sqlite3.connect(cls.sqlite[7:]).executescript(tables)

    def both(self, what):
        # Little of a drill is work; most is waiting.
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for done in [pool.submit(what, url, "sqlite" if url == self.sqlite else "postgresql") for url in (self.postgres, self.sqlite)]:
                done.result()

    def verdict(self, url, scope, mode, *words, expected, command=None, left=True):
        first, wanted = f"{scope}-{mode}", expected if isinstance(expected, tuple) else (expected,)
        # Leases of one second are real time: a machine that holds a service up for as long plays another game than the
        # one meant, so it is played again.
        for attempt in range(3):
            scope = first if attempt == 0 else f"{first}-again{attempt}"
            patience = [] if "--timeout" in words else ["--timeout", "10s"]
            done = drill(url, scope, "--json", *patience, *words, command=command or [*SERVICE, mode])
            document = json.loads(done.stdout)
            # Not a pass that should not be: what the server or layer 1 itself was seen to refuse is no accident of time.
            wrong_pass = document["verdict"] == "passed" and document["runs"][0]["witness"] not in ("wire", "layer1")
            if document["verdict"] in wanted or wrong_pass or any(first in word for word in command or []):
                break
        assert (document["verdict"] in wanted, done.returncode) == (True, 0 if expected == "passed" else 1), done.stdout + done.stderr
        assert processes_with(f"TERMGATE_SCOPE={scope}\0") == []
        return document["runs"][0]

    # ---- who passes -----------------------------------------------------------------------------

    def test_a_right_service_passes(self):
        def passes(url, kind):
            for mode in ("right", "catcher"):
                run = self.verdict(url, "right-" + kind, mode, "--evidence", EVIDENCE, expected="passed")
                assert run["witness"] == ("wire" if kind == "postgresql" else "layer1")
                assert (run["term"], run["next_term"], run["evidence"]) == (1, 2, [])
                assert run["refusal"].startswith(f'TG001 stale term 1 for scope "right-{kind}-{mode}"'), run

        self.both(passes)

    def test_one_by_the_shell_passes(self):
        append = 'termgate append --stream "$TERMGATE_SCOPE-events" --scope "$TERMGATE_SCOPE" --term "$term" </dev/null'
        script = f'{ELECTED}\n while {append}; do renew; done; echo "refused with status $?"'
        self.both(lambda url, kind: self.verdict(url, "shell", kind, expected="passed", command=["bash", "-c", script]))

    def test_through_a_proxy(self):
        if "proxy" not in sh(TERMGATE, "--help") or subprocess.run([TERMGATE, "proxy", "--help"], capture_output=True).returncode != 0:
            pytest.skip("built without the proxy")
        port = free_port()
        url, words = f"postgresql://postgres@127.0.0.1:{port}/postgres", ["--listen", f"127.0.0.1:{port}", "--backend", self.postgres]
        proxy = subprocess.Popen([TERMGATE, "proxy", *words], stderr=subprocess.DEVNULL)
        try:
            assert eventually(lambda: subprocess.run(["psql", "-qX", url, "-c", "SELECT 1"], capture_output=True).returncode == 0, 15, 0.05)
            through = ("--through", f"{url}?options=-ctermgate.scope%3Dproxied-right")
            command = [PYTHON, "-c", PROXIED, self.postgres]
            run = self.verdict(self.postgres, "proxied", "right", *through, expected="passed", command=command)
            assert run["witness"] == "wire"
        finally:
            proxy.terminate()
            proxy.wait()

    # ---- recipes, as docs/use/testkit.md gives them ---------------------------------------------------

    def own_database(self, url, name):
        if url == self.sqlite:
            return f"sqlite:{scratch.name}/{name}.db"
        sql(url, f"CREATE DATABASE {name}")
        return re.sub(r"/[^/?]*$", "/" + name, url)

    def recipe(self, *command, url, mode="right", service=None):
        # A day's work of its own for each: the services of recipes lead scopes of fixed names.
        return captured(
            command, env=dict(environment, TEST_DATABASE=url, SERVICE_COMMAND=service or " ".join([*SERVICE, mode])), timeout=240
        )

    def test_the_recipe_for_pytest(self):
        if subprocess.run([PYTHON, "-c", "import pytest"], capture_output=True).returncode != 0:
            pytest.skip("python3-pytest is missing")
        file = ROOT / "docs" / "use" / "recipes" / "test_stale_leader.py"

        def recipe(url, kind):
            # It protects its table, which those of the other tests are not.
            url = self.own_database(url, "recipe")
            for mode, status, text in (("right", 0, "1 passed"), ("memory", 1, "TG002"), ("declares", 0, "1 passed")):
                if mode != "declares" or kind == "postgresql":
                    done = self.recipe(PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file), url=url, mode=mode)
                    assert (done.returncode, text in done.stdout) == (status, True), done.stdout + done.stderr

        self.both(recipe)

    def test_the_recipe_for_junit_and_a_service_over_jdbc(self):
        jars = [
            Path("/usr/share/java") / name
            for name in (
                "junit-platform-console.jar junit-platform-reporting.jar junit-platform-launcher.jar junit-platform-engine.jar"
                " junit-platform-commons.jar junit-jupiter-api.jar junit-jupiter-engine.jar opentest4j.jar opentest4j-reporting-events.jar"
                " opentest4j-reporting-schema.jar apiguardian-api.jar picocli.jar univocity-parsers.jar postgresql.jar".split()
            )
        ]
        if shutil.which("javac") is None or not jars[0].exists() or not jars[-1].exists():
            pytest.skip("a JDK, junit5 or libpostgresql-jdbc-java is missing")
        classes, path = Path(scratch.name) / "classes", ":".join(str(jar) for jar in jars if jar.exists())
        sh("javac", "-cp", path, "-d", classes, ROOT / "docs" / "use" / "recipes" / "StaleLeaderTest.java", HERE / "Service.java")
        java = ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{path}:{classes}"]
        junit = [*java, "org.junit.platform.console.ConsoleLauncher", "--disable-banner", "--select-class", "StaleLeaderTest"]
        done = self.recipe(*junit, url=self.postgres, service=" ".join([*java, "Service"]))
        assert (done.returncode, "1 tests successful" in done.stdout) == (0, True), done.stdout + done.stderr
        done = self.recipe(*junit, url=self.postgres, mode="memory")
        assert (done.returncode, "a stale write was committed" in done.stdout) == (1, True), done.stdout + done.stderr

    def test_the_page_shows_what_is_run(self):
        docs = ROOT / "docs" / "use"
        page = (docs / "testkit.md").read_text()
        example = (ROOT / "tests" / "package" / "stale_leader_test.cpp").read_text().split("// [example]\n")[1].split("// [/example]")[0]
        shown = re.findall(r"```(\w+)\n(.*?)\n```", page, re.S)
        # The first is the drill by hand, which docs_test.py plays.
        assert [language for language, _ in shown] == ["sh", "python", "java", "yaml", "cmake", "cpp", "sh"]
        for (_, code), whole in zip(
            shown[1:],
            [
                (docs / "recipes" / name).read_text()
                for name in ("test_stale_leader.py", "StaleLeaderTest.java", "stale-leader.yml", "CMakeLists.txt")
            ]
            + [example],
        ):
            assert code in whole

    def test_the_recipe_for_ci(self):
        if subprocess.run([PYTHON, "-c", "import yaml"], capture_output=True).returncode != 0:
            pytest.skip("python3-yaml is missing")
        read = "import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1])), default=str))"
        job = json.loads(sh(PYTHON, "-c", read, ROOT / "docs" / "use" / "recipes" / "stale-leader.yml"))["jobs"]["drill"]
        assert sorted(job["services"]) == ["postgres"]
        assert list(job["env"]) == ["ADMIN_DB", "OWNER_DB", "TERMGATE_DB"]
        folder = Path(scratch.name) / "ci"
        folder.mkdir()
        (folder / "service.py").write_bytes((HERE / "service.py").read_bytes())
        steps = [step for step in job["steps"] if "run" in step]
        assert [step["name"] for step in steps][3:] == ["Install the command", "Prepare the database", "Drill"]
        # What is built is kept, for as long as Termgate's commit is the same.
        cache = next(step for step in job["steps"] if step.get("uses", "").startswith("actions/cache@"))
        assert "steps.termgate.outputs.commit" in cache["with"]["key"]
        assert cache["with"]["path"] in steps[3]["run"]
        # As the runner does it, with names of this run's on this server instead of the job's. Its python3 is Debian's.
        names = {"app": f"ci_{os.getpid()}", "termgate_owner": f"ci_{os.getpid()}_owner", "python3": PYTHON}
        own = lambda text: re.sub(r"\b(app|termgate_owner|python3)\b", lambda name: names[name[0]], text)
        place = re.search(r"(?:@|//)([^@/]+)/[^/]*$", self.postgres).group(1)
        urls = {name: own(url).replace("@postgres/", f"@{place}/") for name, url in job["env"].items()}
        made = (f"DATABASE {names['app']} WITH (FORCE)", f"ROLE {names['app']}", f"ROLE {names['termgate_owner']}")
        self.addCleanup(sql, self.postgres, *(f"DROP {what}" for what in made))
        for step in steps[4:]:
            done = captured(["sh", "-e", "-c", own(step["run"])], cwd=folder, env=dict(environment, **urls), timeout=240)
            assert done.returncode == 0, done.stdout + done.stderr
        kept = job["steps"][-1]["with"]["path"].split()
        assert [name for name in kept if not (folder / name).exists()] == []
        assert xml.etree.ElementTree.parse(folder / kept[0]).getroot().get("tests") == "3"

    # ---- who does not ---------------------------------------------------------------------------

    def test_a_lease_in_memory_is_told(self):
        def told(url, kind):
            run = self.verdict(url, kind, "memory", "--evidence", EVIDENCE, expected="stale_write_committed")
            assert "Protect the table that it writes to" in run["detail"]
            assert "or call check_term" in run["detail"]
            assert re.search(r"--evidence: \d+ under term 1 when instance 2 took over, \d+ now", run["evidence"][0])
            # Without a query for it: PostgreSQL's answers are read along; on SQLite the drill cannot tell it from a
            # service that does nothing, and does not let it pass.
            wanted = "stale_write_committed" if kind == "postgresql" else "did_not_try"
            run = self.verdict(url, kind + "-unasked", "memory", "--timeout", "3s", expected=wanted)
            if kind == "postgresql":
                assert re.search(
                    r"committed by instance 1, .* while the fence stood at 2: INSERT INTO entries .* \(INSERT 0 1\)", run["evidence"][0]
                )
            else:
                assert "--evidence" in run["detail"]

        self.both(told)

    @long
    def test_one_whose_term_rises_all_the_time_is_told(self):
        # By the owner of the lease, for the fence is never where it was.
        run = self.verdict(self.postgres, "rising", "again", expected="stale_write_committed")
        assert run["term"] > 2
        self.verdict(self.postgres, "rising", "renewed", expected="passed", command=[*SERVICE, "anew"])

    @long
    def test_rows_that_the_database_keeps_are_evidence(self):
        def told(url, kind):
            url = self.own_database(url, "kept")
            sh(TERMGATE, "init", "--db", url)
            index = "CREATE INDEX kept_by ON entries (scope, term)"
            sh(TERMGATE, "exec", "--db", url, "--scope", "setup", "--term", "1", ENTRIES, index)
            sh(TERMGATE, "adopt", "--db", url, "entries", "--scope-column", "scope", "--term-column", "term")
            run = self.verdict(url, "kept-" + kind, "memory", expected="stale_write_committed")
            assert re.search(r"rows of entries: \d+ under term 1 when instance 2 took over, \d+ now", run["evidence"][0])

        self.both(told)

    @long
    def test_a_second_table_without_a_check_is_told(self):
        def told(url, kind):
            run = self.verdict(url, kind, "both", *(["--evidence", EVIDENCE] if kind == "sqlite" else []), expected="stale_write_committed")
            assert run["witness"], "it was refused, and wrote elsewhere"

        self.both(told)
        self.verdict(self.postgres, "allowed", "both", "--allow-write", "^UPDATE counters", expected="passed")

    def test_one_that_leaves_without_trying_is_told(self):
        def told(url, kind):
            run = self.verdict(url, kind, "quits", expected="did_not_try")
            assert "it ended with status 0 instead" in run["detail"]

        self.both(told)

    def test_one_that_only_seals_is_told(self):
        # Its refused seals stand in the audit, and are no refused writes.
        script = ELECTED + '\n while termgate seal --scope "$TERMGATE_SCOPE" --term "$term"; do renew; done; sleep 1'

        def told(url, kind):
            run = self.verdict(url, "seals", kind, "--timeout", "15s", expected="did_not_try", command=["bash", "-c", script])
            assert run["witness"] is None
            scope = re.search(r'stale term \d+ for scope "([^"]+)"', "\n".join(run["output"]))[1]
            assert '"refuse"' in sh(TERMGATE, "explain", "--db", url, "--scope", scope, "--json"), "the audit knows of them"

        self.both(told)

    def test_a_refusal_that_is_not_as_stale_is_told_with_its_hint(self):
        # Terms of one's own, and the fence is never raised: every write is TG005, and its hint has the remedy.
        sql(self.postgres, "CREATE TABLE own (n int); SELECT termgate.protect('own', scope => 'own-terms')")
        script = """
            while :; do
              psql -qX "$TERMGATE_DB" -c "BEGIN; SET LOCAL termgate.scope = 'own-terms'; SET LOCAL termgate.term = '3';
                INSERT INTO own VALUES (1); COMMIT" 2>/dev/null
              sleep 0.1
            done"""
        done = drill(self.postgres, "own-terms", "--timeout", "3s", command=["bash", "-c", script])
        assert done.returncode == 1, done.stdout
        for part in ("nobody led", "Instance 1 was refused: TG005", "Hint: "):
            assert part in done.stdout
        assert "3" in done.stdout.partition("Hint: ")[2].splitlines()[0], "how to raise the fence to that term"
        assert done.stdout.count("was refused: TG005") == 1

    def test_a_polite_leader_is_told_how_to_be_tested(self):
        # It looks at its own clock and stops. That the drill ended it is not the service's fault; nor is its lease left behind.
        script = (
            ELECTED
            + """
            last=$(date +%s%N)
            while [ $(($(date +%s%N) - last)) -lt 900000000 ]; do last=$(date +%s%N); renew >/dev/null; sleep 0.1; done
            while :; do sleep 0.1; done"""
        )

        def told(url, kind):
            run = self.verdict(url, "polite", kind, "--timeout", "5s", expected="did_not_try", command=["bash", "-c", script])
            assert "for 5.0 s after it was resumed" in run["detail"]
            assert "signal 15" not in run["detail"]
            assert "when TERMGATE_DRILL is set" in run["detail"]
            for lease in json.loads(sh(TERMGATE, "lease", "list", "--db", url, "--json")):
                if lease["scope"].startswith(f"polite-{kind}"):
                    assert lease["released_at"] is not None, lease

        self.both(told)

    def test_a_liar_is_told(self):
        def told(url, kind):
            run = self.verdict(url, kind, "liar", expected="did_not_try")
            assert "nothing else confirms it" in run["detail"]

        self.both(told)
        self.verdict(self.postgres, "insists", "liar", "--expect-refusal", "TG001", expected="did_not_try")

    def test_one_that_never_leads_is_told(self):
        def told(url, kind):
            assert "did not rise above 0" in self.verdict(url, kind, "never", "--timeout", "2s", expected="nobody_led")["detail"]

        self.both(told)

    @long
    def test_two_that_do_not_wait_for_one_another_are_told(self):
        # Which of the two is seen first is the scheduler's: that the first was refused and ended, or that the second leads.
        def told(url, kind):
            run = self.verdict(url, kind, "grabs", expected=("ended_by_itself", "nobody_led"))
            assert re.search("^instance 1|second instance waits while the first one leads", run["detail"])

        self.both(told)

    def test_no_takeover_is_told(self):
        def told(url, kind):
            run = self.verdict(url, "alone-" + kind, "right", "--timeout", "2s", expected="no_takeover", command=ALONE)
            assert "the fence stayed at 1" in run["detail"]

        self.both(told)

    @long
    def test_one_that_ignores_sigterm_is_killed(self):
        def told(url, kind):
            run = self.verdict(url, kind, "deaf", "--stop-timeout", "300ms", expected="passed")
            assert "instance 1 did not end within 300 ms of SIGTERM and was killed" in run["notes"]

        self.both(told)

    def test_a_scope_that_another_leads(self):
        lease = f"--db {self.sqlite} --scope taken-right --owner somebody --ttl 2s"
        sh(TERMGATE, "lease", "acquire", *lease.split())
        renews = f"while termgate lease renew {lease} --term 1; do sleep 0.2; done"
        leader = subprocess.Popen(["sh", "-c", renews], stdout=subprocess.DEVNULL, env=environment, start_new_session=True)
        try:
            done = drill(self.sqlite, "taken-right", command=[*SERVICE, "right"])
            assert done.returncode == 2, done.stdout + done.stderr
            assert "somebody leads scope \"taken-right\"" in done.stderr
        finally:
            os.killpg(leader.pid, signal.SIGKILL)
            leader.wait()

    # ---- what is printed ------------------------------------------------------------------------

    @long
    def test_several_runs_and_their_reports(self):
        junit, folder = Path(scratch.name) / "drill.xml", Path(scratch.name) / "out"
        done = drill(self.sqlite, "many <&>", "--runs", "2", "--junit", str(junit), "--output", str(folder), command=[*SERVICE, "right"])
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.count("PASSED: the resumed leader tried to write and was refused.") == 2, done.stdout
        assert re.search(r"(?m)^1\| leads under term 1$", done.stderr)
        suite = xml.etree.ElementTree.parse(junit).getroot()
        assert (suite.tag, suite.get("tests"), suite.get("failures")) == ("testsuite", "2", "0")
        assert suite[1].get("name") == "a stale leader of many <&> is refused, run 2"
        assert "instance 1 refused" in suite[0].find("system-out").text
        assert "leads under term 1" in (folder / "run1.instance1.log").read_text()
        done = drill(self.sqlite, "junit-quits", "--junit", str(junit), "--quiet", command=[*SERVICE, "quits"])
        assert (done.returncode, done.stderr) == (1, ""), done.stdout
        assert "FAILED: the resumed leader did not try to write." in done.stdout
        failure = xml.etree.ElementTree.parse(junit).getroot()[0].find("failure")
        assert failure.get("type") == "did_not_try"
        assert drill(self.sqlite, "junit-lost", "--junit", "/nowhere/at/all.xml", command=[*SERVICE, "quits"]).returncode == 1

    def test_no_password_is_shown(self):
        url = self.postgres.replace("postgres@", "postgres:secret-word@")
        junit = Path(scratch.name) / "secret.xml"
        for words in (["--json"], ["--junit", str(junit), "--output", str(Path(scratch.name) / "secret")]):
            done = drill(url, "leaks", *words, command=["sh", "-c", "echo $TERMGATE_DB; exec " + " ".join(SERVICE)])
            assert done.returncode == 0, done.stdout + done.stderr
            assert "secret-word" not in done.stdout + done.stderr
        for path in (junit, Path(scratch.name) / "secret" / "run1.instance1.log"):
            assert "secret-word" not in path.read_text()

    # ---- bad input, and bad ends ----------------------------------------------------------------

    def test_wrong_usage(self):
        for words, command, said in [
            ([], [], "which command?"),
            ([], ["/no/such/program"], "/no/such/program: No such file or directory"),
            ([], ["/tmp"], "/tmp: Permission denied"),
            (["--runs", "0"], ["true"], "a whole number from 1"),
            (["--timeout", "soon"], ["true"], "is not a duration"),
            (["--expect-refusal", "("], ["true"], "no regular expression"),
            (["--allow-write", "["], ["true"], "no regular expression"),
            (["--evidence", "SELECT $2"], ["true"], "needs $1"),
            (["--evidence", "SELECT nonsense"], [*SERVICE, "right"], "--evidence: "),
            (["--through", "postgresql://x"], ["true"], "--through"),
            (["--output", "/proc/nowhere"], ["true"], "--output"),
        ]:
            done = drill(self.sqlite, "usage", *words, command=command)
            assert done.returncode == 2, (words, done.stdout, done.stderr)
            assert said in done.stderr
        assert drill("sqlite::memory:", "x").returncode == 2
        assert drill("mysql://u:p@h/d", "x").returncode == 2
        done = drill(self.sqlite, "x" * 201)
        assert (done.returncode, "TG005" in done.stderr) == (9, True), done.stderr
        done = subprocess.run([TERMGATE, "drill", "--db", self.sqlite, "--", "true"], capture_output=True, text=True)
        assert (done.returncode, "--scope is missing" in done.stderr) == (2, True), done.stderr

    def test_databases_that_cannot_be_used(self):
        bare = f"sqlite:{scratch.name}/bare.db"
        sqlite3.connect(bare[7:]).execute("CREATE TABLE t (v)")
        done = drill(bare, "x")
        assert (done.returncode, "termgate init" in done.stderr) == (1, True), done.stderr
        done = drill("postgresql://somebody:secret-word@127.0.0.1:1/nowhere", "x")
        assert done.returncode == 1, done.stderr
        assert "secret-word" not in done.stderr + done.stdout

    def test_on_a_server_with_tls(self):
        server = Path(scratch.name) / "tls"
        server.mkdir()
        os.chmod(server, 0o755)
        key, certificate = server / "key.pem", server / "certificate.pem"
        request = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
        sh(*request.split(), "-keyout", key, "-out", certificate)
        if os.geteuid() == 0:
            shutil.chown(key, "postgres")
        os.chmod(key, 0o600)
        url = sh(PG_SERVER, "start", "15", server, "fsync=off", "ssl=on", f"ssl_key_file={key}", f"ssl_cert_file={certificate}")
        self.addCleanup(sh, PG_SERVER, "stop", server, "immediate")
        sh(TERMGATE, "init", "--db", url)
        sql(url, ENTRIES)
        assert sql(url, "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()") == "t"
        # libpq encrypts here without being asked to; the command's own way, through the drill on this machine, is plain all the same.
        run = self.verdict(url, "tls", "right", expected="passed")
        assert (run["witness"], run["notes"]) == ("wire", [])
        # Who demands encryption has it, and is told at once that the drill cannot see then, and what to do.
        demanding = url + "?sslmode=require"
        report = Path(scratch.name) / "tls.xml"
        begun = time.monotonic()
        run = self.verdict(demanding, "tls-demanded", "right", "--junit", str(report), expected="not_judged")
        assert time.monotonic() - begun < 10
        for words in ("the URL demands sslmode=require", "sslmode=disable", "--expect-refusal"):
            assert words in run["detail"]
        assert "not_judged" in report.read_text()
        run = self.verdict(demanding, "tls-told", "right", "--expect-refusal", "^TG001 stale term", expected="passed")
        # Whichever is read first: what the service printed, or what the database has noted of its refusal.
        assert run["witness"] in ("output", "audit")
        assert "sslmode=disable" in run["notes"][0]
        # The same where the server takes no plain connection.
        hba = Path(sql(url, "SHOW hba_file"))
        hba.write_text("hostssl all all 127.0.0.1/32 trust\nhostnossl all all 127.0.0.1/32 reject\n" + hba.read_text())
        sql(url, "SELECT pg_reload_conf()")
        plain = ["psql", "-qX", url + "?sslmode=disable", "-c", "SELECT 1"]
        assert eventually(lambda: subprocess.run(plain, capture_output=True).returncode != 0, 10, 0.1), "the new pg_hba.conf"
        run = self.verdict(url, "tls-only", "right", expected="not_judged")
        assert "takes encrypted connections only" in run["detail"]
        # The library writes its refusals down.
        accounts = "CREATE TABLE demo_accounts (id integer PRIMARY KEY, balance bigint NOT NULL)"
        sh(TERMGATE, "exec", "--db", url, "--scope", "setup", "--term", "1", accounts, "INSERT INTO demo_accounts VALUES (42, 1000)")
        demo = [TERMGATE, "demo", "--as", "service", "--scope", "tls-library"]
        run = self.verdict(url, "tls", "library", "--expect-refusal", "^nothing prints this$", expected="passed", command=demo)
        assert run["witness"] == "audit"

    def test_as_the_roles_that_users_have(self):
        url = self.own_database(self.postgres, "roles")
        at = re.search(r"//([^@]*@)?", url).group(0)
        owner, lead, service = (url.replace(at, f"//{role}@", 1) for role in ("layer_owner", "lead_role", "service_role"))
        sql(self.postgres, *(f"CREATE ROLE {role} LOGIN" for role in ("layer_owner", "lead_role", "service_role")))
        sql(self.postgres, "GRANT CREATE ON DATABASE roles TO layer_owner; GRANT pg_signal_backend TO layer_owner")
        sh(TERMGATE, "init", "--db", owner, "--grant", "lead_role=lead")
        protect = "SELECT termgate.protect('entries', scope_column => 'scope')"
        sql(url, ENTRIES, "GRANT INSERT, SELECT ON entries TO lead_role, service_role", protect)
        for mode in ("right", "declares"):
            run = self.verdict(lead, "roles", mode, expected="passed")
            assert (run["witness"], run["notes"]) == ("wire", [])
        # The drill watches as one role, the service works as another, which is told what it lacks.
        sh(TERMGATE, "init", "--db", owner, "--grant", "lead_role=read", "--revoke", "lead_role", "--grant", "service_role=write")
        run = self.verdict(lead, "roles-through", "right", "--through", service, expected="ended_by_itself")
        assert "role service_role, which has level write; if it takes leases it needs level lead: termgate init --grant" in run["notes"][0]
        sh(TERMGATE, "init", "--db", owner, "--grant", "service_role=lead")
        run = self.verdict(lead, "roles-granted", "declares", "--through", service, expected="passed")
        # Level read gives no lease back.
        assert len(run["notes"]) == 1
        assert 'the lease of "roles-granted-declares" is left to run out: permission denied' in run["notes"][0]

    def test_a_server_that_dies_in_the_middle(self):
        server = Path(scratch.name) / "dying"
        server.mkdir()
        os.chmod(server, 0o755)
        url = sh(PG_SERVER, "start", "15", server, "fsync=off")
        self.addCleanup(sh, PG_SERVER, "stop", server, "immediate")
        sh(TERMGATE, "init", "--db", url)
        sql(url, ENTRIES)
        junit = Path(scratch.name) / "dying.xml"
        process = self.begun("dying", "SIGSTOP", ALONE, "--timeout", "3s", "--junit", str(junit), url=url)
        sh(PG_SERVER, "stop", server, "immediate")
        out = process.stdout.read()
        assert process.wait(60) == 1, out
        assert "FAILED: the drill could not be carried out." in out
        assert xml.etree.ElementTree.parse(junit).getroot()[0].find("failure").get("type") == "not_judged"
        assert processes_with("TERMGATE_SCOPE=dying\0") == []

    def begun(self, scope, until, command, *words, url=None):
        process = subprocess.Popen(
            [TERMGATE, "drill", "--scope", scope, *words, "--", *command],
            env=dict(environment, TERMGATE_DB=url or self.sqlite),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        said = ""
        while until not in said:
            line = process.stdout.readline()
            assert line, said
            said += line
        return process

    def test_ctrl_c_leaves_nothing_behind(self):
        for until in ("it leads", "SIGSTOP"):
            process = self.begun("interrupted", until, ["sh", "-c", " ".join(SERVICE) + " right & wait"])
            assert len(processes_with("TERMGATE_SCOPE=interrupted\0")) >= 3
            process.send_signal(signal.SIGINT)
            out = process.stdout.read()
            assert process.wait(20) == 1, out
            assert "FAILED: interrupted." in out
            assert processes_with("TERMGATE_SCOPE=interrupted\0") == []

    @long
    def test_a_drill_that_is_killed_leaves_nothing_behind(self):
        for mode, until in (("right", "it leads"), ("deaf", "SIGSTOP")):
            process = self.begun("killed", until, ["sh", "-c", " ".join(SERVICE) + f" {mode} & wait"])
            assert len(processes_with("TERMGATE_SCOPE=killed\0")) >= 3
            process.kill()
            process.communicate()
            gone = eventually(lambda: processes_with("TERMGATE_SCOPE=killed\0") == [], 15, 0.05)
            assert gone, processes_with("TERMGATE_SCOPE=killed\0")

    def test_nothing_is_left_in_the_temporary_folder(self):
        folder = Path(scratch.name) / "temporary"
        folder.mkdir()
        drill(self.sqlite, "folder", command=[*SERVICE, "right"], TMPDIR=str(folder))
        assert list(folder.iterdir()) == []


PROXIED = """
import os, sys, time, psycopg
url, scope = os.environ["TERMGATE_DB"], os.environ["TERMGATE_SCOPE"]
for name in [name for name in os.environ if name.startswith("PG")]:
    del os.environ[name]
direct = psycopg.connect(sys.argv[1], autocommit=True)  # an election is no matter of the proxy's
while True:
    row = direct.execute("SELECT acquired, term FROM termgate.acquire_lease(%s, %s, interval '1 s')", (scope, f"p{os.getpid()}")).fetchone()
    if row[0]:
        break
    time.sleep(0.05)
while True:
    try:
        with psycopg.connect(url) as connection:
            connection.execute("SET LOCAL termgate.term = '%d'" % row[1])
            connection.execute("INSERT INTO entries VALUES (%s, %s, 'proxied')", (scope, row[1]))
        direct.execute("SELECT termgate.renew_lease(%s, %s, %s, interval '1 s')", (scope, f"p{os.getpid()}", row[1]))
    except psycopg.errors.OperationalError as error:
        print(error, flush=True)
        time.sleep(0.05)
    except psycopg.Error as error:
        print(error.sqlstate, error, flush=True)
        if error.sqlstate == "TG001":
            break
        raise
    time.sleep(0.05)
"""
