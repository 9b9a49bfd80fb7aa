"""What the behaviour suite of the clients plays on: databases, a relay that fails as networks do, and a program in each language.

A program (a *player*) reads commands from its standard input and answers on its standard output, a line each. Words are separated by
tabs; those of a command are percent-encoded. The second word of a command, and the first of an answer, is the name of what it is about:

    hold NAME URL DATABASE SCOPE TTL_MS WAIT_MS OWNER ENDPOINT
                                           NAME held TERM OWNER, later NAME asked (to leave), NAME lost; or NAME blocked
    held NAME HANDLE                       NAME true, or NAME false
    release NAME HANDLE                    NAME released true, or NAME released false
    write NAME HANDLE URL VALUE HOW        NAME written. HOW: declared; twice, again without a declaration
    lead NAME URL DATABASE SCOPE TTL_MS    NAME leading TERM, NAME stopped, …, NAME done at its end
    watch NAME URL DATABASE SCOPE POLL_MS  NAME now OWNER TERM ENDPOINT, or NAME now where nobody leads; …, NAME done at its end
    stop NAME LOOP, fail NAME LOOP         the loop or the watch ends; the work of the loop throws
    quit                                   leaves the block that holds the handles; player gone

OWNER and ENDPOINT may be empty. An error is NAME error CODE MESSAGE.
"""
import contextlib
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import quote

import given
import psycopg

HERE = Path(__file__).resolve().parent
CLIENTS = given.ROOT / "clients"
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("TERMGATE_", "PG", "GO", "FAKETIME"))}


class Relay:
    """A TCP relay to a port of this machine. It can freeze, answer late, cut what is open, and refuse what is new."""

    def __init__(self, port):
        self.target, self.delay, self.ports = port, 0.0, []
        self._pairs = []
        self.forget()
        self._listen(0)

    def forget(self):
        """What is open by now hangs for good, if it was frozen; what is new does not."""
        self._gates = {"requests": threading.Event(), "answers": threading.Event()}
        self.thaw()

    def _listen(self, port):
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _accept(self, listener):
        while True:
            try:
                near = listener.accept()[0]
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                return
            self.ports.append(far.getsockname()[1])
            self._pairs.append((near, far))
            for source, sink, what in ((near, far, "requests"), (far, near, "answers")):
                threading.Thread(target=self._pump, args=(source, sink, what, self._gates[what]), daemon=True).start()

    def _pump(self, source, sink, what, gate):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if what == "answers":
                    time.sleep(self.delay)
                gate.wait()
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def freeze(self, *what):
        for each in what or self._gates:
            self._gates[each].clear()

    def thaw(self):
        for gate in self._gates.values():
            gate.set()

    def refuse(self):
        """Cuts what is open; new connections are refused until accept()."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for pair in self._pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def accept(self):
        self._listen(self.port)


class Player:
    """A running program of one language."""

    def __init__(self, words, env):
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        self._heard, self._news, self._names, self.errors = {}, threading.Condition(), 0, []
        threading.Thread(target=self._listen, daemon=True).start()
        threading.Thread(target=lambda: self.errors.extend(self.process.stderr), daemon=True).start()

    def _listen(self):
        for line in self.process.stdout:
            words = line.rstrip("\n").split("\t")
            with self._news:
                self._heard.setdefault(words[0], []).append((time.time(), words[1:]))
                self._news.notify_all()

    def name(self):
        with self._news:
            self._names += 1
            return f"n{self._names}"

    def send(self, command, *words):
        with self._news:
            self.process.stdin.write("\t".join([command, *(quote(str(word), safe="") for word in words)]) + "\n")
            self.process.stdin.flush()

    def heard(self, name, word, seconds=15.0, nth=1):
        """When, and what follows the word: the nth answer about `name` that begins with it. None where it does not come in time."""

        def found():
            answers = [(at, words[1:]) for at, words in self._heard.get(name, []) if words[0] == word]
            return answers[nth - 1] if len(answers) >= nth else None

        with self._news:
            self._news.wait_for(found, seconds)
            return found()

    def warm(self, language, database):
        """Its driver is loaded, so that the first handle of a scenario is no slower than the others."""
        name = self.name()
        self.send("hold", name, language.url(database), database.name, f"{language.name} warm {self.process.pid}", 60_000, 20_000, "", "")
        assert self.answer(name, 60)[0] == "held", self._heard[name]
        self.ask("release", name)

    def ask(self, command, *words, seconds=15.0):
        """The answer to a command that has only one."""
        name = self.name()
        self.send(command, name, *words)
        return self.answer(name, seconds)

    def answer(self, name, seconds=15.0):
        with self._news:
            if not self._news.wait_for(lambda: self._heard.get(name), seconds):
                raise AssertionError(f"no answer within {seconds} s; the program's errors: {''.join(self.errors[-5:])}")
            return self._heard[name][0][1]

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def quit(self):
        with contextlib.suppress(OSError):
            self.process.stdin.write("quit\n")
            self.process.stdin.flush()

    def kill(self):
        self.process.kill()
        self.process.wait()


class PostgreSQL:
    """A server of its own. Role leader may take leases, writer may not."""

    name = "postgresql"

    def __init__(self, folder):
        self._folder, self._mine = folder, threading.local()
        words = [given.PG_SERVER, "start", "15", f"{folder}/pg", "fsync=off", "max_connections=600"]
        self.admin = subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
        self.port = int(self.admin.rpartition(":")[2].partition("/")[0])
        with psycopg.connect(self.admin, autocommit=True) as admin:
            admin.execute("CREATE ROLE leader LOGIN; CREATE ROLE writer LOGIN")
        words = [given.TERMGATE, "init", "--db", self.admin, "--grant", "leader=lead", "--grant", "writer=write"]
        subprocess.run(words, check=True, capture_output=True, env=CLEAN)
        with psycopg.connect(self.admin, autocommit=True) as admin:
            admin.execute("CREATE TABLE written (value bigint); GRANT INSERT ON written TO leader")
            admin.execute("SELECT termgate.protect('written', scope => '*')")
            # What the clients' renewals look like from here, whatever a client says of them.
            admin.execute("CREATE TABLE renewals (scope text, term bigint, renewed_at timestamptz, expires_at timestamptz)")
            admin.execute(
                "CREATE FUNCTION note_renewal() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$ BEGIN"
                " INSERT INTO renewals VALUES (NEW.scope, NEW.term, NEW.renewed_at, NEW.expires_at); RETURN NEW; END $$"
            )
            admin.execute(
                "CREATE TRIGGER note_renewal AFTER INSERT OR UPDATE ON termgate.leases FOR EACH ROW EXECUTE FUNCTION note_renewal()"
            )

    def rows(self, statement, *values):
        if not hasattr(self._mine, "admin"):  # a thread's own; scenarios look often
            self._mine.admin = psycopg.connect(self.admin, autocommit=True)
        cursor = self._mine.admin.execute(statement, values)
        return cursor.fetchall() if cursor.description else []

    def lease(self, scope):
        """Owner, term, the end in seconds since 1970, whether it has been given back."""
        found = self.rows(
            (
                "SELECT owner_id, term, extract(epoch FROM expires_at)::float, released_at IS NOT NULL FROM termgate.lease_status WHERE"
                " scope = %s"
            ),
            scope,
        )
        return found[0] if found else (None, 0, 0.0, True)

    def renewals(self, scope):
        return self.rows(
            (
                "SELECT extract(epoch FROM renewed_at)::float, extract(epoch FROM expires_at)::float, term FROM renewals WHERE scope = %s"
                " ORDER BY renewed_at"
            ),
            scope,
        )

    def force_release(self, scope):
        self.rows("SELECT termgate.force_release(%s, 'the suite', 'a test')", scope)

    def hand_over(self, scope, to=None, drain_ms=20_000):
        asked = self.rows("SELECT requested FROM termgate.request_hand_over(%s, %s, %s * interval '1 ms')", scope, to, drain_ms)
        self.rows("SELECT termgate.notify_raised(%s)", scope)
        assert asked == [(True,)], "nobody holds it"

    def seal(self, scope, term):
        self.rows("SELECT termgate.seal(%s, %s::bigint)", scope, term)

    def written(self, value):
        return self.rows("SELECT count(*) FROM written WHERE value = %s", value)[0][0]

    def end_sessions(self, ports):
        self.rows("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE client_port = ANY(%s)", ports)

    def close(self):
        subprocess.run([given.PG_SERVER, "stop", f"{self._folder}/pg", "immediate"], capture_output=True)


class SQLite:
    """A file; each program loads the extension."""

    name = "sqlite"

    def __init__(self, folder):
        self._folder = tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else folder)  # nothing waits for a disk
        self.path, self._mine = f"{self._folder.name}/handles.db", threading.local()
        self.rows("PRAGMA journal_mode = WAL")
        self.rows("SELECT termgate_init()")
        self.rows("CREATE TABLE written (value bigint)")
        self.rows("SELECT termgate_protect('written', NULL, '*')")

    def rows(self, statement, *values):
        if not hasattr(self._mine, "admin"):
            self._mine.admin = sqlite3.connect(self.path, isolation_level=None, timeout=20)
            self._mine.admin.enable_load_extension(True)
            self._mine.admin.load_extension(given.EXTENSION)
        return self._mine.admin.execute(statement, values).fetchall()

    def lease(self, scope):
        found = self.rows("SELECT owner_id, term, expires_at / 1000.0, released_at IS NOT NULL FROM termgate_leases WHERE scope = ?", scope)
        return found[0] if found else (None, 0, 0.0, True)

    def force_release(self, scope):
        self.rows("SELECT termgate_force_release(?, 'the suite', 'a test')", scope)

    def hand_over(self, scope, to=None, drain_ms=20_000):
        asked = self.rows("SELECT termgate_request_hand_over(?, ?, ?) ->> 'requested'", scope, to, drain_ms)
        assert asked == [(1,)], "nobody holds it"

    def seal(self, scope, term):
        self.rows("SELECT termgate_seal(?, ?)", scope, term)

    def written(self, value):
        return self.rows("SELECT count(*) FROM written WHERE value = ?", value)[0][0]

    def close(self):
        self._folder.cleanup()


DATABASES = {"postgresql": PostgreSQL, "sqlite": SQLite}


def _modules():
    """npm's driver for Node, fetched once into the cache of the tests."""
    given_cache = os.environ.get("TERMGATE_CACHE")
    cache = Path(given_cache) if given_cache else Path("/var/cache/termgate") if os.getuid() == 0 else Path.home() / ".cache" / "termgate"
    home = cache / "node-pg-8.23.1-postgres-3.4.9"
    if not (home / "ready").exists():
        home.mkdir(parents=True, exist_ok=True)
        words = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--prefix", str(home)]
        subprocess.run([*words, "pg@8.23.1", "postgres@3.4.9"], check=True, capture_output=True, timeout=280)
        (home / "ready").touch()
    return home


class Language:
    """How a program of one language, mostly the player, is built from a copy of its client, and started."""

    needs = ()
    databases = ("postgresql",)
    client = ()  # its files below clients/; a mistake is planted in one of them
    player = ""
    left_out = ()  # scenarios that show nothing in this language

    def __init__(self, folder, plant=None, program=None):
        self.folder, self.program = Path(folder), program or HERE / self.player
        self.folder.mkdir(parents=True)
        shutil.copytree(CLIENTS / self.name, self.folder / "client", ignore=shutil.ignore_patterns("__pycache__"))
        if plant:
            right, wrong = plant
            texts = {self.folder / "client" / file: (self.folder / "client" / file).read_text(encoding="utf-8") for file in self.client}
            found = sum(text.count(right) for text in texts.values())
            assert found == 1, f"{self.client}: {right!r} is there {found} times; the suite plants a mistake there"
            for path, text in texts.items():
                path.write_text(text.replace(right, wrong), encoding="utf-8")
        self.build()

    @property
    def name(self):
        return type(self).__name__.lower()

    @classmethod
    def missing(cls):
        return [need for need in cls.needs if not (Path(need).exists() if "/" in need else shutil.which(need))]

    def build(self):
        pass

    def run(self, *words, env=None):
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, cwd=self.folder, env=env or CLEAN, timeout=280)
        assert done.returncode == 0, f"{self.name}: {done.stdout}{done.stderr}"

    def url(self, database, role="leader", port=None):
        if database.name == "sqlite":
            return f"{database.path}|{given.EXTENSION}"
        return self.postgresql(role, port or database.port)

    def postgresql(self, role, port):
        return f"postgresql://{role}@127.0.0.1:{port}/postgres?sslmode=disable"

    def start(self, database, **env):
        player = Player([str(word) for word in self.words()], {**CLEAN, **self.env(), **env})
        player.warm(self, database)
        return player

    def env(self):
        return {}


class Python(Language):
    client = ("termgate/__init__.py",)
    player = "player.py"
    databases = ("postgresql", "sqlite")

    def words(self):
        return [given.PYTHON, self.program]

    def env(self):
        return {"PYTHONPATH": str(self.folder / "client"), "PYTHONDONTWRITEBYTECODE": "1"}


class Node(Language):
    client = ("index.js",)
    player = "player.mjs"
    needs = ("node", "npm")

    def build(self):
        self.modules = _modules()

    def words(self):
        return ["node", "--no-warnings", self.program]

    def env(self):
        return {"CLIENT": str(self.folder / "client"), "MODULES": str(self.modules)}


class Go(Language):
    client = ("termgate.go", "watch.go")
    player = "player.go"
    needs = ("go", "/usr/share/gocode/src/github.com/lib/pq")
    left_out = ("a_stepped_clock_changes_nothing",)  # it asks the kernel for the time, where no library can step it

    def build(self):
        source = self.folder / "go" / "src" / "termgate"
        source.parent.mkdir(parents=True)
        source.symlink_to(self.folder / "client")
        env = {**CLEAN, "GO111MODULE": "off", "GOPATH": f"{self.folder}/go:/usr/share/gocode", "GOFLAGS": "", "CGO_ENABLED": "0"}
        self.run("go", "build", "-o", self.folder / "player", self.program, env=env)

    def words(self):
        return [self.folder / "player"]


class Java(Language):
    client = ("src/main/java/termgate/Termgate.java", "src/main/java/termgate/Watch.java")
    player = "Player.java"
    needs = ("javac", "java", "/usr/share/java/postgresql.jar")

    def build(self):
        sources = [*(self.folder / "client" / "src" / "main" / "java" / "termgate").glob("*.java"), self.program]
        quickly = ("-J-XX:+UseSerialGC", "-J-XX:TieredStopAtLevel=1")
        self.run("javac", *quickly, "-cp", self.needs[2], "-d", self.folder / "classes", *sources)

    def words(self):
        return ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{self.folder}/classes:{self.needs[2]}", self.program.stem]

    def postgresql(self, role, port):
        return f"jdbc:postgresql://127.0.0.1:{port}/postgres?user={role}&sslmode=disable"


class Dotnet(Language):
    client = ("Termgate.cs", "Watch.cs")
    player = "Player.cs"
    needs = ("mcs", "mono")

    def build(self):
        sources = [*(self.folder / "client").glob("*.cs"), self.program]
        self.run("mcs", "-out:player.exe", "-r:System.Data.dll", "-r:System.Core.dll", *sources)

    def words(self):
        return ["mono", self.folder / "player.exe"]

    def postgresql(self, role, port):
        return f"Driver={{PostgreSQL Unicode}};Server=127.0.0.1;Port={port};Database=postgres;Uid={role}"


LANGUAGES = {language.__name__.lower(): language for language in (Python, Node, Go, Java, Dotnet)}
