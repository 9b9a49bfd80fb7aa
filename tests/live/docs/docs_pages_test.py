"""The code in docs/use/ (admin, followers, the guard, the proxy, the crontab of run.md, the SQLite file), cut out of the pages
and run as the roles that they name. docs_test.py has README.md and the other pages.

  pytest tests/live/docs/docs_pages_test.py [-k follower]

On the server of tests/support/plain_server.py; for the guard's page TERMGATE_GUARD names its library. Names of databases,
hosts, ports and files are replaced by this run's; nothing else is.
"""
import json
import os
import re
import shutil
import socket
import subprocess
import sys

import pytest

from checks import captured, eventually
from given import GUARD, ROOT, TERMGATE, free_port
from pages import ENVIRONMENT, PLACE, SERVER, block, psql, shell

NAME = f"pages_{os.getpid()}"


@pytest.fixture
def started():
    """Starts programs that are ended with the test: started(words, port) waits until somebody listens there."""
    running = []

    def start(words, port, cwd):
        process = subprocess.Popen(["bash", "-c", "exec " + words], cwd=cwd, env=ENVIRONMENT, stdout=subprocess.DEVNULL)
        running.append(process)

        def listens():
            assert process.poll() is None, f"{words} ended with {process.returncode}"
            return socket.socket().connect_ex(("127.0.0.1", port)) == 0

        assert eventually(listens, 20), f"nobody listens: {words}"
        return process

    yield start
    for process in running:
        process.terminate()
        process.wait()


class Database:
    """On the shared server: layer 1 installed by `owner`, a role `app` of level lead."""

    def __init__(self):
        self.owner, self.app = NAME + "_owner", NAME + "_app"
        psql(SERVER, f"CREATE DATABASE {NAME};\nCREATE ROLE {self.owner} LOGIN;\nCREATE ROLE {self.app} LOGIN;")
        psql(SERVER, f"GRANT CREATE ON DATABASE {NAME} TO {self.owner}, {self.app};")
        shell(f"termgate init --db {self.url(self.owner)} --grant {self.app}=lead", ROOT)

    def url(self, role):
        return f"postgresql://{role}@{PLACE}/{NAME}"

    def drop(self):
        psql(SERVER, f"DROP DATABASE {NAME} WITH (FORCE);\nDROP ROLE {self.app};\nDROP ROLE {self.owner};")


@pytest.fixture(scope="module")
def database():
    made = Database()
    yield made
    made.drop()


def test_admin(database, started, tmp_path):
    page, port = block("docs/use/admin.md", 'echo "ann operate'), free_port()
    tokens, protected, command = page.splitlines()
    shell(f"{tokens}\n{protected}", tmp_path)
    command = command.split("#")[0].replace("postgresql://app@db.example/app", database.url(database.app))
    started(f"{command} --http 127.0.0.1:{port}", port, tmp_path)
    commands = lambda beginning: [line for line in block("docs/use/admin.md", beginning).splitlines() if not line.startswith("#")]
    define, acquire, renew, give_back, hand_over, handed, expired, search = commands("api() {")
    token = (tmp_path / "tokens").read_text().split()[2]

    def api(line):
        return json.loads(shell(f"{define}\n{line}", tmp_path, TOKEN=token, URL=f"http://127.0.0.1:{port}") or "null")

    taken = api(acquire)
    assert isinstance(taken["term"], str) and int(taken["term"]) > 0
    assert api(renew.replace('"term":"5"', f'"term":"{taken["term"]}"'))["term"] == taken["term"]
    assert "error" in api(renew.replace('"term":"5"', '"term":"999"'))
    assert api(hand_over)["to"] == "web-2:*"
    assert api(handed)["hand_overs"][0]["state"] == "asked"
    start, beat, finish = commands("# 201, with its")
    run = api(start.replace('"term":"5"', f'"term":"{taken["term"]}"'))["run_id"]
    assert api(beat.replace("jobs/17", "jobs/" + run))["renewed"] is True
    assert api(finish.replace("jobs/17", "jobs/" + run)) == {"status": "completed"}
    api(give_back.replace('"term":"5"', f'"term":"{taken["term"]}"'))
    assert api(expired)["leases"] == []
    assert api(search)["scopes"] == []
    assert api(expired.replace("expired", "released"))["leases"][0]["scope"] == "billing"


def test_followers(database, tmp_path):
    url = database.url(database.app)
    projection, audit, listed = block("docs/use/followers.md", "termgate follow").splitlines()
    term = shell(f"termgate lease acquire --db {url} --scope orders --owner me --ttl 1h | cut -f1", tmp_path).strip()
    append = f"termgate append --db {url} --stream orders --scope orders --term {term}"
    for number in range(3):
        shell(f"echo order-{number} | {append}", tmp_path)
    (tmp_path / "project.py").write_text(
        f"#!{sys.executable}\nimport json, sys\nfor line in sys.stdin:\n    print(json.loads(line)['sequence_no'], flush=True)\n"
    )
    (tmp_path / "project.py").chmod(0o755)
    once = lambda line: line.split("#")[0].replace("termgate follow ", f"termgate follow --db {url} --once ").replace("billing", "orders")
    assert shell(once(projection), tmp_path).split() == ["1", "2", "3"]
    assert shell(once(projection), tmp_path) == ""
    assert len(shell(once(audit), tmp_path).splitlines()) == 3
    shell(f"echo order-3 | {append}", tmp_path)
    behind = shell(listed.split("#")[0] + f" --db {url}", tmp_path)
    assert re.search(r"projection-1.*\b1\b", behind) and "audit" in behind, behind


def test_a_follower_whose_effects_are_in_the_database(database):
    url = database.url(database.app)
    psql(url, "CREATE SCHEMA AUTHORIZATION CURRENT_USER;\nCREATE TABLE totals (orders int);\nINSERT INTO totals VALUES (0);")
    run = psql(url, "SELECT termgate.follower_start('in-database', 'orders', NULL, false);").splitlines()[0]
    text = (
        block("docs/use/followers.md", "BEGIN;\nUPDATE totals")
        .replace("'projection-1', 7", f"'in-database', {run}")
        .replace("41, 42", "0, 1")
    )
    assert psql(url, text) == "moved"
    assert psql(url, text.replace("COMMIT", "ROLLBACK")) != "moved"
    assert psql(url, "SELECT orders FROM totals;") == "1"


@pytest.mark.skipif(not GUARD, reason="TERMGATE_GUARD names no library")
def test_guard():
    sys.path.insert(0, str(ROOT / "tests" / "live" / "guard"))
    from guard_rig import Rig

    rig = Rig("15", GUARD)
    try:
        rig.psql("-c", "CREATE DATABASE app OWNER termgate_owner")
        rig.layer1("app")
        rig.psql("-c", "CREATE TABLE accounts (id int PRIMARY KEY, balance bigint); GRANT ALL ON accounts TO app", database="app")
        rig.psql("-c", "INSERT INTO accounts VALUES (42, 100); SELECT termgate.grant_level('app', 'write')", database="app")
        rig.psql("-c", "ALTER ROLE app RESET termgate.guard")
        as_admin = lambda text: rig.psql("-c", text, database="app")

        as_app = lambda text, fails=None: psql(f"postgresql://app@127.0.0.1:{rig.port}/app", text, fails=fails)

        update = "UPDATE accounts SET balance = 0"
        for line in block("docs/use/guard.md", "CREATE EXTENSION").splitlines():
            as_admin(line)
        as_app(f"BEGIN; {update}; COMMIT;")
        # "… counts it", once the session has ended.
        count = rig.psql("-c", "SELECT sum(count) FROM termgate.guard_observed WHERE code = 'TG002'", database="app")
        assert int(count) >= 1
        as_admin(block("docs/use/guard.md", "ALTER ROLE app SET termgate.guard = 'enforce'"))
        as_app(update, fails="TG002")
        as_admin("SELECT termgate.seal('billing', 5)")
        as_app("SELECT 1")
        declared = block("docs/use/guard.md", "BEGIN;\nSET LOCAL")
        as_app(declared)
        as_app(declared.replace("'5'", "'4'"), fails="TG001")
        assert rig.psql("-c", "SELECT balance FROM accounts", database="app") == "-30"
        for line in block("docs/use/guard.md", "ALTER ROLE termgate_owner IN DATABASE app").splitlines():
            as_admin(line)
        rig.psql("-c", "ALTER ROLE app RESET termgate.guard", database="postgres")
        as_app(update, fails="TG002")
        for line in block("docs/use/guard.md", "SELECT * FROM termgate.guarded_sessions").splitlines():
            as_admin(line.split("--")[0])
    finally:
        rig.close()


def test_the_certificates_of_the_proxy(database, started, tmp_path):
    shell(block("docs/use/proxy.md", "openssl req"), tmp_path)
    port = free_port()
    conf = "backend = {}\nclient-tls-cert = proxy.crt\nclient-tls-key = proxy.key\n".format(database.url(database.owner))
    (tmp_path / "proxy.conf").write_text(conf)
    started(f"termgate proxy --config proxy.conf --listen 127.0.0.1:{port}", port, tmp_path)
    target = f"host=db.example hostaddr=127.0.0.1 port={port} dbname={NAME} user={database.app} sslmode=verify-full"
    assert psql(f"{target} sslrootcert={tmp_path}/ca.crt", "SELECT 1;") == "1"
    other = target.replace("host=db.example", "host=other.example")
    psql(f"{other} sslrootcert={tmp_path}/ca.crt", "SELECT 1;", fails="does not match")


def test_the_configuration_of_the_proxy(database, started, tmp_path):
    # The page names the package's sample, in which the rules are a comment.
    text = (ROOT / "packaging/debian/proxy.conf").read_text().replace("#rules =", "rules =").replace("/etc/termgate/", f"{tmp_path}/")
    port, http = free_port(), free_port()
    (tmp_path / "proxy.conf").write_text(text.replace("127.0.0.1:9090", f"127.0.0.1:{http}"))
    (tmp_path / "backend").write_text(database.url(database.owner) + "\n")
    (tmp_path / "backend").chmod(0o600)
    (tmp_path / "rules").write_text("")
    proxy = started(f"termgate proxy --config proxy.conf --listen 127.0.0.1:{port}", port, tmp_path)
    shell(f"curl -sf http://127.0.0.1:{http}/readyz", tmp_path)
    proxy.terminate()
    assert proxy.wait(35) == 0


class Crontab:
    """The crontab of run.md on three hosts: cron hands down its variables and nothing else of an environment. The names and
    the job are this run's, and the TTL is one that a test can wait for."""

    def __init__(self, database, folder):
        self.database, self.folder, self.hosts = database, folder, []
        psql(database.url(database.owner), "DELETE FROM termgate.job_runs WHERE scope = 'report';")

    def host(self, waits="2h"):
        variable, line = block("docs/use/run.md", "TERMGATE_DB=").splitlines()
        name, value = variable.replace("postgresql://app@db.example/app", self.database.url(self.database.app)).split("=", 1)
        for old, new in (
            (r"^0 3 \* \* \*  termgate run ", f"exec {TERMGATE} run --ttl 1s "),
            ("/opt/report.sh", f"{self.folder}/report.sh"),
            ("--wait 2h", f"--wait {waits}"),
        ):
            assert re.search(old, line), line
            line = re.sub(old, new, line)
        environment = {"PATH": "/usr/bin:/bin", "HOME": "/", "SHELL": "/bin/sh", name: value}
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        self.hosts.append(subprocess.Popen(["/bin/sh", "-c", line], cwd="/", env=environment, text=True, **pipes))
        return self.hosts[-1]

    def play(self, job, then):
        """(status, what was printed) of each host, the first one first, and the history of the job's runs."""
        script = self.folder / "report.sh"
        script.write_text(f"#!/bin/sh\ncd {self.folder}\n{job}\n")
        script.chmod(0o755)
        first = self.host()
        assert eventually((self.folder / "begun").exists, 30), "the first host does not run the job"
        self.host(), self.host()
        then(first)
        ended = [(host.communicate(timeout=60)[0], host.returncode) for host in self.hosts]
        statuses = "SELECT status FROM termgate.job_runs WHERE scope = 'report' ORDER BY started_at, run_id;"
        history = psql(self.database.url(self.database.owner), statuses)
        return [(status, said) for said, status in ended], history.splitlines()


@pytest.fixture
def crontab(database, tmp_path):
    made = Crontab(database, tmp_path)
    yield made
    for host in made.hosts:
        host.kill()
        host.communicate()


UNTIL_GO = "until test -e go; do sleep 0.1; done"


def test_the_crontab_on_three_hosts(crontab):
    ended, history = crontab.play(f"touch begun; {UNTIL_GO}; echo report", lambda _: (crontab.folder / "go").touch())
    assert (ended, history) == ([(0, "report\n"), (0, ""), (0, "")], ["completed"])


def test_the_crontab_where_the_job_takes_longer_than_the_wait(crontab):
    def wait_too_short(_):
        crontab.host(waits="1s").wait(timeout=60)
        (crontab.folder / "go").touch()

    ended, history = crontab.play(f"touch begun; {UNTIL_GO}", wait_too_short)
    late = ended.pop()
    assert late[0] == 104 and "under term" in late[1]
    assert (ended, history) == ([(0, ""), (0, ""), (0, "")], ["completed"])


def test_the_crontab_without_its_variable(tmp_path):
    # Why the page has the variable.
    line = re.sub(r"^0 3 \* \* \*  termgate", TERMGATE, block("docs/use/run.md", "TERMGATE_DB=").splitlines()[1])
    done = subprocess.run(["/bin/sh", "-c", line], env={"PATH": "/usr/bin:/bin"}, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 102 and "TERMGATE_DB" in done.stderr


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is missing")
def test_the_units_of_the_proxy(tmp_path):
    for kind in ("socket", "service"):
        # The command, its user and its manual are installed with the package, and are not here.
        text = (ROOT / f"packaging/systemd/termgate-proxy.{kind}").read_text().replace("/usr/bin/termgate", TERMGATE)
        text = text.replace("User=termgate\nGroup=termgate\n", "").replace("Documentation=man:termgate-proxy(1)\n", "")
        (tmp_path / f"termgate-proxy.{kind}").write_text(text)
    done = captured(["systemd-analyze", "verify", tmp_path / "termgate-proxy.socket", tmp_path / "termgate-proxy.service"])
    assert done.returncode == 0 and "termgate" not in done.stderr, done.stderr
