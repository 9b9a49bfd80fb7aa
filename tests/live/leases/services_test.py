#!/usr/bin/env python3
"""The services of docs/use/frameworks.md, as the page prints them: two of each, one of which is stopped past its lease, wakes up and ends.
The examples of docs/use/java-and-orms.md on top of the Java client, and the declaration of SQLAlchemy.

  pytest tests/live/leases/services_test.py [-k java]
"""
import concurrent.futures
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import given
import pytest
from checks import eventually
from layer1_lab import Server

sys.path.insert(0, str(Path(__file__).resolve().parent / "handles"))
from lab import CLEAN, CLIENTS, LANGUAGES  # noqa: E402

PAGE = given.ROOT / "docs" / "use" / "frameworks.md"
ORMS = given.ROOT / "docs" / "use" / "java-and-orms.md"
KINDS = {"python": "python", "js": "node", "go": "go", "java": "java", "csharp": "dotnet"}


def blocks(page, kind):
    return re.findall(rf"^```{kind}\n(.*?)\n^```$", page.read_text(encoding="utf-8"), re.S | re.M)


def service(kind):
    """The block below "A service in …", of which there is one a language."""
    front = PAGE.read_text(encoding="utf-8").split("\n## One place to declare\n")[0]
    (code,) = re.findall(rf"^```{kind}\n(.*?)\n^```$", front, re.S | re.M)
    return code


@pytest.fixture(scope="module")
def server():
    made = Server("15")
    yield made
    made.stop()


def prepared(server):
    """A database as the page's first block leaves it."""
    lab = server.bare()
    server.admin(lab.name, "ALTER SCHEMA public OWNER TO owner")
    (code,) = [code for code in blocks(PAGE, "sh") if code.startswith("termgate init")]
    lab.sql("owner", "CREATE TABLE public.accounts (id int PRIMARY KEY, balance bigint)", "INSERT INTO public.accounts VALUES (42, 100)")
    code = code.replace("postgresql://termgate_owner@db.example/app", lab.url("tg_owner")).replace("--grant app=", "--grant owner=")
    code = code.replace("postgresql://app@db.example/app", lab.url("owner"))
    env = {**CLEAN, "PATH": f"{Path(given.TERMGATE).parent}:{CLEAN['PATH']}"}
    done = subprocess.run(["bash", "-e", "-c", code], capture_output=True, text=True, env=env, timeout=120)
    assert done.returncode == 0, done.stderr
    return lab


class Service:
    """One running copy."""

    def __init__(self, words, env, folder):
        words = [str(word) for word in words]
        pipes = {name: subprocess.PIPE for name in ("stdin", "stdout", "stderr")}
        self.process = subprocess.Popen(words, **pipes, text=True, env={**CLEAN, **env}, cwd=folder)
        self.terms, self.errors = [], []
        threading.Thread(target=self._read, daemon=True).start()
        threading.Thread(target=lambda: self.errors.extend(self.process.stderr), daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.terms.append(int(re.fullmatch(r"leading under term (\d+)\n", line)[1]))

    def leads(self, times=1, seconds=60):
        assert eventually(lambda: len(self.terms) >= times, seconds), f"it does not lead: {''.join(self.errors)}"
        return self.terms[-1]

    def ends(self, kind):
        """By Ctrl-C, in C# by Enter."""
        if kind == "csharp":
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        else:
            self.process.send_signal(signal.SIGINT)
        assert self.process.wait(60) in (0, 130), "".join(self.errors)


def built(kind, code, folder):
    """Words and environment that run the page's program."""
    name = {"python": "service.py", "js": "service.mjs", "go": "service.go", "csharp": "service.cs"}.get(kind)
    name = name or re.search(r"public class (\w+)", code)[1] + ".java"
    (folder / name).write_text(code, encoding="utf-8")
    made = LANGUAGES[KINDS[kind]](folder / "built", program=folder / name)
    if kind == "js":
        (folder / "node_modules").mkdir()
        for module in (made.modules / "node_modules").iterdir():
            (folder / "node_modules" / module.name).symlink_to(module)
        (folder / "node_modules" / "termgate").symlink_to(made.folder / "client")
    return made.words(), made.env()


def url_of(kind, lab):
    port = lab.server.address.rpartition(":")[2]
    if kind == "java":
        return f"jdbc:postgresql://{lab.server.address}/{lab.name}?user=owner"
    if kind == "csharp":
        return f"Driver={{PostgreSQL Unicode}};Server=127.0.0.1;Port={port};Database={lab.name};Uid=owner"
    return lab.url("owner") + "?sslmode=disable"


def balance(lab):
    return lab.value("owner", "SELECT balance FROM public.accounts WHERE id = 42")


def play(kind, lab, folder):
    words, env = built(kind, service(kind), folder)
    services = []
    try:
        first = Service([*words, url_of(kind, lab)], env, folder)
        services.append(first)
        term = first.leads()
        assert eventually(lambda: balance(lab) < 98, 60), f"nothing is written: {''.join(first.errors)}"
        second = Service([*words, url_of(kind, lab)], env, folder)
        services.append(second)
        # Until it waits for the lease, a stop of the first proves nothing.
        assert eventually(lambda: lab.value("postgres", "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()") > 3, 60)
        first.process.send_signal(signal.SIGSTOP)
        assert second.leads() > term
        first.process.send_signal(signal.SIGCONT)
        before = balance(lab)
        assert eventually(lambda: balance(lab) < before, 60), f"the second writes nothing: {''.join(second.errors)}"
        second.ends(kind)
        again = first.leads(2)
        assert again > second.terms[-1], "the first leads again under a term of its own"
        first.ends(kind)
        assert lab.value("owner", "SELECT released_at IS NOT NULL FROM termgate.lease_status WHERE scope = 'billing'")
    finally:
        for one in services:
            one.process.kill()
            one.process.wait()


@pytest.fixture(scope="module")
def played(request, server, tmp_path_factory):
    """All at once, for they wait more than they work."""
    chosen = {item.callspec.params["kind"] for item in request.session.items if "played" in item.fixturenames}
    wanted = [kind for kind in chosen if not LANGUAGES[KINDS[kind]].missing()]
    labs = {kind: prepared(server) for kind in wanted}
    with concurrent.futures.ThreadPoolExecutor(len(KINDS)) as pool:
        return {kind: pool.submit(play, kind, labs[kind], tmp_path_factory.mktemp(kind)) for kind in wanted}


@pytest.mark.parametrize("kind", KINDS)
def test_a_service_of_the_page(kind, played):
    if kind not in played:
        pytest.skip(f"{kind} needs {', '.join(LANGUAGES[KINDS[kind]].missing())}")
    played[kind].result()


# ---- docs/use/java-and-orms.md --------------------------------------------------------------------------


def test_a_lease_as_a_block_in_java(server, tmp_path):
    missing = LANGUAGES["java"].missing()
    if missing:
        pytest.skip(f"java needs {', '.join(missing)}")
    lab = prepared(server)
    (code,) = [code for code in blocks(ORMS, "java") if code.startswith("import")]
    words, _ = built("java", code, tmp_path)

    def run():
        done = subprocess.run([*words, url_of("java", lab)], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert run() == "leading under term 1\n"
    assert run() == "leading under term 2\n"  # at once: the first has given the lease back
    assert balance(lab) == 40
    # What the database says of a takeover between the acquisition and the write.
    lab.sql(
        "postgres",
        (
            "CREATE FUNCTION public.overtaken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " RAISE 'TG001 stale term 3' USING ERRCODE = 'TG001'; END $$"
        ),
        "CREATE TRIGGER overtaken BEFORE UPDATE ON public.accounts FOR EACH ROW EXECUTE FUNCTION public.overtaken()",
    )
    assert run() == "leading under term 3\nanother leads: the work is discarded\n"
    assert balance(lab) == 40


def test_sqlalchemy_declares_by_the_lease(server, tmp_path):
    if not Path("/usr/lib/python3/dist-packages/sqlalchemy").exists():
        pytest.skip("sqlalchemy is not installed")
    lab = prepared(server)
    (under,) = [code for code in blocks(ORMS, "python") if code.startswith("from sqlalchemy")]
    code = (
        f"{under}\nimport sqlalchemy, sys, termgate, psycopg2\n"
        "engine = sqlalchemy.create_engine(sys.argv[1])\n"
        "def write(lease):\n"
        "    with under(engine, lease).begin() as connection:\n"
        "        connection.execute(sqlalchemy.text('UPDATE accounts SET balance = balance - 30 WHERE id = 42'))\n"
        "leases = termgate.Termgate(lambda: psycopg2.connect(sys.argv[1]))\n"
        "with leases.hold('billing', owner='one') as stale:\n"
        "    write(stale)\n"
        "    with leases.hold('billing', owner='one') as lease:\n"
        "        write(lease)\n"
        "        try:\n"
        "            write(stale)\n"
        "        except Exception as error:\n"
        "            print(error)\n"
    )
    env = {**CLEAN, "PYTHONPATH": str(CLIENTS / "python"), "PYTHONDONTWRITEBYTECODE": "1"}
    words = [given.PYTHON, "-W", "ignore", "-c", code, lab.url("owner")]
    done = subprocess.run(words, capture_output=True, text=True, env=env, timeout=60, cwd=tmp_path)
    assert "TG001 stale term 1" in done.stdout, done.stdout + done.stderr
    assert balance(lab) == 40
