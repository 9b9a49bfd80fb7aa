"""Programs that nobody changed, fenced by libtermgate-preload.so: Python, Ruby, the sqlite3 shell, C++ with threads.

  pytest tests/live/sqlite/preload_test.py [-k shell]

The programs are in preload/. None of them knows a term. Each is refused on a protected table without a term, writes with one, and gets
TG001 after a takeover. Programs that the library cannot reach (PHP's modules, static linking, setuid) fail closed. And whoever does not
use layer 1 sees no difference: the same answers, the same bytes in the file.
"""
import hashlib
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from checks import captured, check, eventually, stays
from given import EXTENSION, PYTHON, TERMGATE

HERE = Path(__file__).resolve().parent
LIBRARY = str(Path(EXTENSION).with_name("libtermgate-preload.so"))
UNREACHED = "no such function: termgate_guard_load_termgate_extension_first"
INSERT = "INSERT INTO t (v) VALUES ('row')"
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("TERMGATE_", "LD_PRELOAD"))}


def preloaded(term=None, scope="billing"):
    made = dict(CLEAN, LD_PRELOAD=LIBRARY)
    if term is not None:
        made.update(TERMGATE_SCOPE=scope, TERMGATE_TERM=str(term))
    return made


def termgate(*words, **more):
    done = subprocess.run([TERMGATE, *words], env=CLEAN, capture_output=True, text=True, timeout=60, **more)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def path(tmp_path):
    """A file with layer 1, whose table t belongs to the scope billing; the fence is at 5."""
    path = str(tmp_path / "app.db")
    termgate("init", "--db", f"sqlite:{path}")
    subprocess.run(["sqlite3", path, "CREATE TABLE t (id INTEGER PRIMARY KEY, v)"], check=True)
    termgate("protect", "t", "--scope", "billing", "--db", f"sqlite:{path}")
    termgate("seal", "--scope", "billing", "--term", "5", "--db", f"sqlite:{path}")
    return path


def rows(path):
    return int(subprocess.run(["sqlite3", path, "SELECT count(*) FROM t"], capture_output=True, text=True, check=True).stdout)


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """The C++ program, linked with SQLite as Debian links it, and statically."""
    folder = tmp_path_factory.mktemp("programs")
    for name, words in (("writer", ["-lsqlite3"]), ("static", ["-static", "-lsqlite3", "-lm"])):
        made = captured(
            ["g++", "-std=c++20", "-Wall", "-Wextra", str(HERE / "preload/writer.cpp"), "-o", str(folder / name), *words, "-pthread"]
        )
        assert made.returncode == 0, made.stderr
    return folder


def words_of(program, built):
    if program == "c++":
        return [str(built / "writer"), "lines"]
    name, file = {"python": (PYTHON, "writer.py"), "ruby": ("ruby", "writer.rb"), "php": ("php", "writer.php")}[program]
    needs = {"ruby": ["ruby", "-e", 'require "sqlite3"'], "php": ["php", "-r", 'new PDO("sqlite::memory:");']}.get(program)
    if needs and (not shutil.which(needs[0]) or subprocess.run(needs, capture_output=True).returncode):
        pytest.skip(f"{program} or its SQLite is missing")
    return [name, str(HERE / "preload" / file)]


class Running:
    """A program that reads statements, and answers each with a line."""

    def __init__(self, words, path, environment):
        self.process = subprocess.Popen([*words, path], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        check("the program ends by itself", self.process.wait(30) == 0, str(self.process.returncode))
        self.process.stdout.close()

    def says(self, statement):
        self.process.stdin.write(statement + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()


@pytest.mark.parametrize("program", ["python", "ruby", "c++"])
def test_an_unchanged_program_is_fenced(program, path, built):
    words = words_of(program, built)
    with Running(words, path, CLEAN) as plain:
        check("without the library nothing is written", UNREACHED in plain.says(INSERT))
    with Running(words, path, preloaded()) as nameless:
        check("without a term: TG002", nameless.says(INSERT).startswith("TG002 no term declared"))
        check("it may read", nameless.says("SELECT 1").startswith("ok"))
    for malformed in ("0", "-5", "5x", " 5", "9999999999999999999999", ""):
        with Running(words, path, preloaded(malformed)) as wrong:
            check(f"the term {malformed!r} is none", wrong.says(INSERT).startswith("TG002"))
    with Running(words, path, preloaded(5, "shipping")) as other:
        check("another scope's term: TG002", other.says(INSERT).startswith("TG002"))
    with Running(words, path, preloaded(7)) as early:
        check("a term that nobody sealed", "termgate_seal('billing', 7)" in early.says(INSERT))
    check("nothing was written so far", rows(path) == 0)
    with Running(words, path, preloaded(5)) as leader:
        check("written with its term", leader.says(INSERT) == "ok" and rows(path) == 1)
        leader.says("BEGIN")
        check("in a transaction too", leader.says(INSERT) == "ok")
        check("committed", leader.says("COMMIT") == "ok" and rows(path) == 2)
        termgate("seal", "--scope", "billing", "--term", "6", "--db", f"sqlite:{path}")
        answer = leader.says(INSERT)
        check("TG001 after a takeover", answer.startswith('TG001 stale term 5 for scope "billing": the fence stands at 6'), answer)
    with Running(words, path, preloaded(6)) as next_leader:
        check("the next leader writes", next_leader.says(INSERT) == "ok")
    check("three rows", rows(path) == 3)


def test_the_shell_is_fenced(path):
    def shell(environment, *lines):
        done = subprocess.run(["sqlite3", path], env=environment, input="\n".join(lines), capture_output=True, text=True, timeout=60)
        return done.stdout + done.stderr

    check("without the library nothing is written", UNREACHED in shell(CLEAN, INSERT + ";"))
    check("without a term: TG002", "TG002 no term declared" in shell(preloaded(), INSERT + ";"))
    check("written with its term", shell(preloaded(5), INSERT + ";") == "" and rows(path) == 1)
    seal = f".system env -u LD_PRELOAD {TERMGATE} seal --scope billing --term 6 --db sqlite:{path} >/dev/null"
    said = shell(preloaded(5), INSERT + ";", seal, INSERT + ";")
    check("TG001 after a takeover", "TG001 stale term 5" in said and rows(path) == 2, said)
    check("the extension may be loaded once more", shell(preloaded(6), f".load {EXTENSION}", INSERT + ";") == "" and rows(path) == 3)
    said = shell(preloaded(6), ".open :memory:", f"ATTACH '{path}' AS other;", "INSERT INTO other.t (v) VALUES (1);")
    check("an attached file's table is refused", "TG005" in said and "attached file" in said and rows(path) == 3, said)


def test_threads_write_on_connections_of_their_own(path, built):
    def run(environment):
        done = subprocess.run([built / "writer", "threads", path], env=environment, capture_output=True, text=True, timeout=120)
        check("it ends by itself and says nothing else", (done.returncode, done.stderr) == (0, ""), done.stderr)
        return done.stdout.splitlines()

    check("eight are refused", all(line.startswith("TG002") for line in run(preloaded())) and rows(path) == 0)
    check("eight write", run(preloaded(5)) == ["ok"] * 8 and rows(path) == 160)
    check("eight are stale", all(line.startswith("TG001") for line in run(preloaded(4))) and rows(path) == 160)


def test_a_program_sees_no_difference_in_a_connection(built, tmp_path):
    file = str(tmp_path / "plain.db")

    def facts(environment):
        return subprocess.run([built / "writer", "facts", file], env=environment, capture_output=True, text=True, timeout=60)

    plain, fenced = facts(CLEAN), facts(preloaded(5))
    check(
        "codes, messages, settings, counters", plain.stdout == fenced.stdout and plain.stdout.count("\n") == 6, plain.stdout + fenced.stdout
    )
    check("no warnings", fenced.stderr == "", fenced.stderr)
    broken = facts(dict(preloaded(5), TERMGATE_EXTENSION="/no/such/termgate.so"))
    check("an extension that is not there changes nothing", broken.stdout == plain.stdout and broken.stderr == "", broken.stdout)


def test_a_file_without_layer_1_is_opened_as_without_it(built, tmp_path):
    statements = [
        "PRAGMA page_size = 8192",
        "PRAGMA encoding = 'UTF-16'",
        "CREATE TABLE t (id INTEGER PRIMARY KEY, v)",
        INSERT,
        "CREATE VIEW w AS SELECT v FROM t",
        "SELECT v FROM w",
        "NONSENSE",
        "SELECT load_extension('x')",
        "DELETE FROM t WHERE id = 9",
    ]
    answers, files = [], []
    for name, environment in (("plain", CLEAN), ("fenced", preloaded(5))):
        file = tmp_path / f"{name}.db"
        with Running(words_of("python", built), str(file), environment) as program:
            answers.append([program.says(statement) for statement in statements])
        files.append(hashlib.sha256(file.read_bytes()).hexdigest())
        check("nothing beside the file", [found.name for found in tmp_path.glob(f"{name}*")] == [f"{name}.db"])
    check("the same answers", answers[0] == answers[1], str(answers))
    check("the same bytes", files[0] == files[1])


def test_an_open_writes_nothing_and_reads_nothing(path, built, tmp_path):
    subprocess.run(["sqlite3", path, "PRAGMA journal_mode = DELETE"], check=True, capture_output=True)
    before, moment = Path(path).read_bytes(), os.stat(path).st_mtime_ns
    with Running(words_of("python", built), path, preloaded(5)) as program:
        check("opened", program.says("SELECT 1").startswith("ok"))
        check("no other files", sorted(found.name for found in tmp_path.iterdir()) == ["app.db"])
    check("the same bytes", Path(path).read_bytes() == before and os.stat(path).st_mtime_ns == moment)
    new = tmp_path / "new.db"
    with Running(words_of("python", built), str(new), preloaded(5)) as program:
        program.says("SELECT 1")
    check("a new file stays empty", new.stat().st_size == 0)
    # As one that is encrypted, whose key comes after the open.
    other = tmp_path / "other.db"
    other.write_bytes(b"no database, at any rate not yet" * 512)
    with Running(words_of("python", built), str(other), preloaded(5)) as program:
        check("what cannot be read is found out by the program", program.says("SELECT * FROM t") == "file is not a database")
    # A lock that another process has is waited for by nobody.
    holder = Running(words_of("python", built), path, dict(CLEAN))
    with holder:
        holder.says("BEGIN EXCLUSIVE")
        begun = time.monotonic()
        with Running(words_of("python", built), path, preloaded(5)) as program:
            check("an open does not wait for a lock", program.says("SELECT 1").startswith("ok") and time.monotonic() - begun < 3)


@pytest.mark.parametrize("program", ["a static program", "an environment that was emptied", "php"])
def test_what_it_cannot_reach_fails_closed(program, path, built):
    words = {
        "a static program": lambda: [built / "static", "lines"],
        "an environment that was emptied": lambda: words_of("c++", built),
        "php": lambda: words_of("php", built),  # its modules are loaded with RTLD_DEEPBIND, in front of which no other library comes
    }[program]()
    with Running(words, path, dict(preloaded(5), **({"LD_PRELOAD": ""} if "emptied" in program else {}))) as unreached:
        check("nothing is written", UNREACHED in unreached.says(INSERT) and rows(path) == 0)


def test_a_setuid_program_fails_closed(path, built, tmp_path):
    if os.geteuid() != 0 or os.statvfs(tmp_path).f_flag & os.ST_NOSUID:
        pytest.skip("needs root, and a file system that honours setuid")
    program = tmp_path / "setuid"
    shutil.copy(built / "writer", program)
    program.chmod(0o4755)
    for folder in [tmp_path, *tmp_path.parents][:4]:
        folder.chmod(folder.stat().st_mode | 0o011)
    done = captured([program, "lines", path], env=preloaded(5), input=INSERT + "\n", user=65534, group=65534, timeout=60)
    check("the loader leaves the library out", done.stdout.strip() == UNREACHED and rows(path) == 0, done.stdout + done.stderr)


def test_it_exports_the_three_functions_and_needs_the_c_library_alone():
    symbols = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True, check=True).stdout
    names = sorted(line.split()[-1] for line in symbols.splitlines())
    check("three symbols", names == ["sqlite3_open", "sqlite3_open16", "sqlite3_open_v2"], symbols)
    dynamic = subprocess.run(["readelf", "-d", LIBRARY], capture_output=True, text=True, check=True).stdout
    needed = [line.split("[")[1].rstrip("]") for line in dynamic.splitlines() if "(NEEDED)" in line]
    check("the C library", set(needed) <= {"libc.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}, str(needed))
    done = subprocess.run(["sh", "-c", "echo quiet"], env=preloaded(5), capture_output=True, text=True)
    check("a program without SQLite", (done.stdout, done.stderr) == ("quiet\n", ""), done.stderr)


def test_a_program_that_has_layer_1_itself_keeps_its_own(path):
    append = [TERMGATE, "append", "--db", f"sqlite:{path}", "--scope", "billing", "--stream", "events"]
    for term, status in (("5", 0), ("4", 3)):
        done = subprocess.run([*append, "--term", term], env=preloaded(5), input="one\n", capture_output=True, text=True, timeout=60)
        check(f"term {term} ends with {status}", done.returncode == status, done.stderr)
    loads = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); c.enable_load_extension(True);"
        "c.load_extension(sys.argv[2]); c.execute('BEGIN IMMEDIATE'); c.execute(\"SELECT termgate_check_term('billing', 6)\");"
        "c.execute(\"INSERT INTO t (v) VALUES ('row')\"); c.execute('COMMIT')"
    )
    done = captured([PYTHON, "-c", loads, path, str(Path(EXTENSION).with_suffix(""))], env=preloaded())
    check("its own check passes", done.returncode == 0 and rows(path) == 1, done.stderr)


def run_words(path, *words):
    return [TERMGATE, "run", "--db", f"sqlite:{path}", "--scope", "billing", *words]


def test_run_fences_a_program_under_its_lease(path, built):
    run = run_words(path, "--preload", "--", *words_of("python", built))
    with Running(run, path, CLEAN) as leader:
        check("written under the lease's term", leader.says(INSERT) == "ok" and rows(path) == 1)
    with Running(run_words(path, "--", *words_of("python", built)), path, CLEAN) as plain:
        check("without --preload nothing is written", UNREACHED in plain.says(INSERT))
    shows = run_words(path, "--preload", "--", "sh", "-c", "echo $LD_PRELOAD $TERMGATE_SCOPE $TERMGATE_TERM")
    said = subprocess.run(shows, env=dict(CLEAN, LD_PRELOAD="libm.so.6"), capture_output=True, text=True, timeout=60)
    check("what was preloaded stays", said.stdout.startswith(f"{LIBRARY}:libm.so.6 billing "), said.stdout + said.stderr)


def test_run_ends_the_program_before_another_writes(path, built, tmp_path):
    loop = (
        "import signal, sqlite3, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "c = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "while True:\n"
        "    try: c.execute(\"INSERT INTO t (v) VALUES ('loop')\")\n"
        "    except sqlite3.Error: pass\n"
        "    time.sleep(0.005)\n"
    )
    run = subprocess.Popen(
        run_words(path, "--ttl", "2s", "--preload", "--", PYTHON, "-c", loop, path), env=CLEAN, stderr=subprocess.PIPE, text=True
    )
    try:
        check("it writes", eventually(lambda: rows(path) > 5, 20))
        termgate("lease", "force-release", "--db", f"sqlite:{path}", "--scope", "billing", "--reason", "test")
        check("status 105: the lease was lost", run.wait(20) == 105, str(run.returncode))
        written = rows(path)
        check("nothing more is written", stays(lambda: rows(path) == written, 0.5))
        with Running(run_words(path, "--preload", "--", *words_of("python", built)), path, CLEAN) as next_leader:
            check("the next one writes", next_leader.says(INSERT) == "ok" and rows(path) == written + 1)
    finally:
        run.kill()
        run.wait()
        run.stderr.close()


def test_run_says_where_the_library_is_missing(path, tmp_path):
    copied = tmp_path / "termgate"
    shutil.copy(TERMGATE, copied)
    done = subprocess.run([copied, *run_words(path, "--preload", "--", "true")[1:]], env=CLEAN, capture_output=True, text=True, timeout=60)
    check("a usage error", done.returncode == 102 and "install the package termgate-sqlite-extension" in done.stderr, done.stderr)
