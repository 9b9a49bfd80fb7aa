#!/usr/bin/env python3
"""`termgate run` under whatever a caller can hand down: signals that it ignores or blocks, closed descriptors, limits, namespaces, a /proc
that is missing or another's, seccomp, a tracer. In each state the status is passed on, TERM reaches COMMAND, and a lost lease ends all of
COMMAND; or nothing is started, and the message says why.

  pytest tests/live/leases/inherited_test.py [-k seccomp]

On an SQLite file: what is tested does not depend on the database. Namespaces need root.
"""
import ctypes
import os
import resource
import signal
import struct
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from checks import captured, check, eventually
from given import PYTHON, TERMGATE

scratch = tempfile.TemporaryDirectory(prefix="termgate-inherited.")
os.chmod(scratch.name, 0o777)
clean = {name: value for name, value in os.environ.items() if not name.startswith(("TERMGATE_", "PG"))}
libc = ctypes.CDLL(None, use_errno=True)
numbers = iter(range(1, 10_000))

PIDFD_SEND_SIGNAL, PIDFD_OPEN, KILL, PRCTL, FORK, CLONE = 424, 434, 62, 157, 57, 56
ENOSYS, EPERM = 38, 1


def every_signal():
    return [number for number in range(1, signal.NSIG) if number not in (signal.SIGKILL, signal.SIGSTOP, 32, 33)]


def ignoring(*signals):
    def handed():
        for number in signals:
            signal.signal(number, signal.SIG_IGN)

    return handed


def blocking(*signals):
    return lambda: signal.pthread_sigmask(signal.SIG_BLOCK, signals)


def closing(*descriptors):
    return lambda: [os.close(one) for one in descriptors]


def limited(what, limit):
    return lambda: resource.setrlimit(what, (limit, limit))


def seccomp(calls, answer, argument=None):
    """These system calls answer with an error, or end their caller (answer None). argument: only where the first one has this value."""

    def handed():
        end = 0x80000000 if answer is None else 0x00050000 | answer
        program = [(0x20, 0, 0, 0)]  # the call's number
        for i, number in enumerate(calls):
            program.append((0x15, len(calls) - i, 0, number))
        program.append((0x06, 0, 0, 0x7FFF0000))
        if argument is not None:
            program += [(0x20, 0, 0, 16), (0x15, 1, 0, argument), (0x06, 0, 0, 0x7FFF0000)]
        program.append((0x06, 0, 0, end))
        code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in program))

        class Filter(ctypes.Structure):
            _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]

        libc.prctl(38, 1, 0, 0, 0)
        if libc.prctl(22, 2, ctypes.byref(Filter(len(program), ctypes.cast(code, ctypes.c_void_p)))) != 0:
            os._exit(77)

    return handed


def in_namespace(flags, script):
    return ["unshare", *flags, "sh", "-c", script + '; exec "$@"', "sh"]


PLAIN_SHARE = 4
NOBODY = "setpriv --reuid 65534 --regid 65534 --clear-groups"
# name: (words in front of termgate, what is done before exec, what a refusal says; None: it runs)
STATES = {
    "nothing special": ([], None, None),
    "SIGCHLD ignored": ([], ignoring(signal.SIGCHLD), None),
    "every signal ignored": ([], ignoring(*every_signal()), None),
    "every signal blocked": ([], blocking(*every_signal()), None),
    "every signal ignored and blocked": ([], lambda: (ignoring(*every_signal())(), blocking(*every_signal())()), None),
    "standard input closed": ([], closing(0), None),
    "standard streams closed but output": ([], closing(0, 2), None),
    "few descriptors": ([], limited(resource.RLIMIT_NOFILE, 24), None),
    "too few descriptors": ([], limited(resource.RLIMIT_NOFILE, 7), "file descriptors"),
    "no pending signals": ([], limited(resource.RLIMIT_SIGPENDING, 0), None),
    "no memory to lock": ([], limited(resource.RLIMIT_MEMLOCK, 0), None),
    "no new privileges": ([], lambda: libc.prctl(38, 1, 0, 0, 0), None),
    "a subreaper": ([], lambda: libc.prctl(36, 1, 0, 0, 0), None),
    "ended with its parent": ([], lambda: libc.prctl(1, signal.SIGKILL, 0, 0, 0), None),
    "a session of its own": (["setsid", "-w"], None, None),
    "children of its caller": (["sh", "-c", 'sleep 600 > /dev/null 2>&1 & echo $! > "$PWD/sleeper"; exec "$@"', "sh"], None, None),
    "a stopped group": (["sh", "-c", '(sleep 1; kill -CONT $$) & kill -STOP $$; exec "$@"', "sh"], None, None),
    "traced": (["strace", "-f", "-qq", "-e", "trace=none", "-e", "signal=none", "-o", "/dev/null"], None, None),
    "pidfd_open ENOSYS": ([], seccomp([PIDFD_OPEN], ENOSYS), None),
    "pidfd_open EPERM": ([], seccomp([PIDFD_OPEN], EPERM), None),
    "pidfd_send_signal ENOSYS": ([], seccomp([PIDFD_SEND_SIGNAL], ENOSYS), None),
    "pidfd_send_signal EPERM": ([], seccomp([PIDFD_SEND_SIGNAL], EPERM), None),
    "both EPERM": ([], seccomp([PIDFD_OPEN, PIDFD_SEND_SIGNAL], EPERM), None),
    "pidfd_open ends its caller": ([], seccomp([PIDFD_OPEN], None), "ended before it was ready"),
    "no signal can be sent": ([], seccomp([KILL, PIDFD_SEND_SIGNAL], EPERM), "kill() and pidfd_send_signal()"),
    "no subreaper": ([], seccomp([PRCTL], EPERM, argument=36), "PR_SET_CHILD_SUBREAPER"),
    "no /proc": (in_namespace(["-m"], "umount -l /proc"), None, "/proc is not mounted"),
    "another's /proc": (["unshare", "-fp"], None, "another PID namespace"),
    "a PID namespace": (["unshare", "-fp", "--mount-proc"], None, None),
    "/proc hidepid=2": (in_namespace(["-m"], "mount -t proc -o hidepid=2 proc /proc; set -- " + NOBODY + ' "$@"'), None, None),
    "/proc subset=pid": (in_namespace(["-m"], "mount -t proc -o subset=pid proc /proc"), None, None),
    "no processes": (
        ["setpriv", "--reuid", "61234", "--regid", "61234", "--clear-groups", "prlimit", "--nproc=2:2"],
        None,
        "no process can be started",
    ),
}
# As nobody, who may not read the build's folder; and where no database can be opened twice.
NAMESPACES = ("unshare", "setpriv")


@pytest.fixture(scope="module")
def url():
    # Where anybody may write it.
    folder = Path(scratch.name) / "db"
    folder.mkdir(mode=0o777)
    os.chmod(folder, 0o777)
    subprocess.run([TERMGATE, "init", "--db", f"sqlite:{folder}/it.db"], check=True, capture_output=True)
    for file in folder.iterdir():
        os.chmod(file, 0o666)
    return f"sqlite:{folder}/it.db"


class Started:
    def __init__(self, url, state, *words, ttl="2s"):
        self.url, self.scope = url, f"inherited {next(numbers)} of {os.getpid()}"
        prefix, handed, _ = STATES[state]
        if prefix and prefix[0] in NAMESPACES and os.geteuid() != 0:
            pytest.skip("namespaces need root")
        line = [*prefix, TERMGATE, "run", "--scope", self.scope, "--ttl", ttl, "--", *words]
        self.child = subprocess.Popen(
            line,
            env=dict(clean, TERMGATE_DB=url),
            cwd=scratch.name,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=handed,
        )

    def end(self, seconds=20):
        try:
            output, errors = self.child.communicate(timeout=seconds)
            return self.child.returncode, output, errors
        except subprocess.TimeoutExpired:
            self.child.kill()
            return "did not end", "", ""

    def lose(self):
        release = [TERMGATE, "lease", "force-release", "--scope", self.scope, "--reason", "test"]
        subprocess.run(release, env=dict(clean, TERMGATE_DB=self.url), check=True, capture_output=True)

    def termgate(self):
        """The process itself: what is in front of it may have stayed its parent."""
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if words[0] == TERMGATE.encode() and self.scope.encode() in words:
                    return int(entry.name)
            except OSError:
                pass  # it has ended
        return None


def temporary():
    handle, path = tempfile.mkstemp(dir=scratch.name)
    os.close(handle)
    os.chmod(path, 0o666)
    return Path(path)


# Detaches itself, ignores TERM, and says that it is alive for as long as it is.
LASTING = """
import os, signal, sys, time
signal.pthread_sigmask(signal.SIG_UNBLOCK, range(1, signal.NSIG))
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork():
    time.sleep(600)
os.setsid()
while True:
    with open(sys.argv[1], "a") as file:
        file.write("alive ")
    time.sleep(0.02)
"""
HEARS = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
with open(sys.argv[1], "w") as file:
    file.write("up")
while True:  # not pause(), which a signal right in front of it would not end
    time.sleep(0.05)
"""


def goes_on(path):
    before = path.stat().st_size
    return eventually(lambda: path.stat().st_size > before, 0.5)


@pytest.mark.parametrize("state", STATES)
def test_inherited(state, url):
    refusal = STATES[state][2]
    if refusal is not None:
        status, output, errors = Started(url, state, "sh", "-c", "echo begun").end()
        check("nothing is started", status == 102 and output == "", (status, output, errors))
        check("the message says why", errors.startswith("termgate: COMMAND is not started") and refusal in errors, errors)
        return

    status, _, errors = Started(url, state, "sh", "-c", "exit 7").end()
    check("the status is passed on", status == 7, (status, errors))

    up = temporary()
    started = Started(url, state, PYTHON, "-c", HEARS, str(up))
    if check("COMMAND runs", eventually(lambda: up.read_text() == "up", 20)):
        os.kill(started.termgate(), signal.SIGTERM)
    status, _, errors = started.end()
    check("TERM reaches COMMAND, whose status is passed on", status == 9, (status, errors))

    alive = temporary()
    started = Started(url, state, PYTHON, "-c", LASTING, str(alive))
    check("COMMAND runs", eventually(lambda: alive.stat().st_size > 0, 20))
    started.lose()
    status, _, errors = started.end(10)
    check("the loss is reported", status == 105, (status, errors))
    if not check("the loss ends what COMMAND has started", not goes_on(alive)):
        subprocess.run(["pkill", "-9", "-f", str(alive)])
    sleeper = Path(scratch.name) / "sleeper"
    if sleeper.exists():
        check("a child of the caller's is left alone", Path(f"/proc/{sleeper.read_text().strip()}").exists())
        os.kill(int(sleeper.read_text()), signal.SIGKILL)
        sleeper.unlink()


@pytest.mark.parametrize("state", [state for state, given in STATES.items() if not given[0] and given[2] is None])
def test_command_gets_what_the_caller_gave(state, url):
    # As from a shell: the same signals ignored and blocked, the same descriptors.
    look = "import os, re; print(re.findall(r'Sig(?:Ign|Blk):.*', open('/proc/self/status').read()), sorted(os.listdir('/proc/self/fd')))"
    words = [PYTHON, "-Ssc", look]
    direct = subprocess.run(
        words, env=clean, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=STATES[state][1]
    )
    status, output, errors = Started(url, state, *words).end()
    check("they are the same", (status, output) == (0, direct.stdout), (status, output, direct.stdout, errors))


def watchdog_of(pid):
    return next(child for child in children_of(pid) if Path(f"/proc/{child}/comm").read_text().strip() == "tg-watchdog")


def children_of(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def tracer(pid):
    """Stops a process as a debugger does: SIGCONT does not move it."""
    program = (
        "import ctypes, os, sys, time\nlibc = ctypes.CDLL(None)\n"
        "if libc.ptrace(16, int(sys.argv[1]), 0, 0) != 0: sys.exit(77)\n"
        "os.waitpid(int(sys.argv[1]), 0x40000000)\nprint('holds', flush=True)\ntime.sleep(600)\n"
    )
    holder = subprocess.Popen([PYTHON, "-c", program, str(pid)], stdout=subprocess.PIPE, text=True)
    if holder.stdout.readline() != "holds\n":
        holder.kill()
        pytest.skip("ptrace is not allowed here")
    return holder


@pytest.mark.parametrize("how", ["stopped", "stopped again and again", "traced"])
@pytest.mark.parametrize("then", ["loss", "TERM", "end", "watchdog only"])
def test_watchdog_that_does_not_run(how, then, url):
    # What termgate asks of the watchdog happens all the same.
    alive = temporary()
    ends = "sleep 1; exit 5" if then == "end" else "while :; do echo alive >> " + str(alive) + "; sleep 0.02; done"
    started = Started(url, "nothing special", "sh", "-c", f"echo > {alive}; " + ends)
    check("COMMAND runs", eventually(lambda: alive.stat().st_size > 0, 20))
    watchdog = watchdog_of(started.child.pid)
    holder = stopping = None
    if how == "traced":
        holder = tracer(watchdog)
    elif how == "stopped":
        os.kill(watchdog, signal.SIGSTOP)
    else:
        stopping = subprocess.Popen(["sh", "-c", f"while kill -STOP {watchdog}; do sleep 0.005; done"], stderr=subprocess.DEVNULL)
    try:
        began = time.monotonic()
        if then == "loss":
            started.lose()
        if then == "TERM":
            started.child.send_signal(signal.SIGTERM)
        if then == "watchdog only" and how != "traced":
            # Nothing is wrong but that: COMMAND goes on.
            check("COMMAND goes on", goes_on(alive) and started.child.poll() is None)
            started.child.send_signal(signal.SIGTERM)
        status, _, errors = started.end(12)
        # Who is stopped again and again runs in between, or is given up.
        wanted = {"loss": {105}, "TERM": {128 + signal.SIGTERM, 101}, "end": {5, 101}, "watchdog only": {128 + signal.SIGTERM, 101}}[then]
        if how == "stopped":
            wanted.discard(101)
        check("it ends", status in wanted, (status, errors))
        check("COMMAND is ended", not goes_on(alive))
        check("soon", time.monotonic() - began < 8, time.monotonic() - began)
    finally:
        for one in (holder, stopping):
            if one:
                one.kill()
                one.wait()


def held_and_wanted(url, handed=None):
    """A run that holds a lease, and one that waits for it."""
    holder = Started(url, "nothing special", "sleep", "600")
    check("it is held", eventually(lambda: holder.termgate() and children_of(holder.child.pid)))
    line = [TERMGATE, "run", "--scope", holder.scope, "--wait", "1h", "--", "sh", "-c", "exit 3"]
    waiter = subprocess.Popen(line, env=dict(clean, TERMGATE_DB=url), stderr=subprocess.DEVNULL, preexec_fn=handed)
    eventually(lambda: children_of(waiter.pid))
    time.sleep(0.3)
    return holder, waiter


def test_watchdog_stopped_during_the_wait(url):
    holder, waiter = held_and_wanted(url)
    os.kill(watchdog_of(waiter.pid), signal.SIGSTOP)
    waiter.send_signal(signal.SIGTERM)
    check("TERM ends the wait", waiter.wait(10) == 128 + signal.SIGTERM)
    holder.child.terminate()
    holder.end()


def test_nohup_while_waiting(url):
    holder, waiter = held_and_wanted(url, ignoring(signal.SIGHUP))
    waiter.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    check("HUP does not end it", waiter.poll() is None)
    holder.child.terminate()
    holder.end()
    check("it runs when its turn comes", waiter.wait(20) == 3)


@pytest.mark.parametrize("state", ["SIGCHLD ignored", "every signal ignored", "every signal blocked", "no /proc"])
def test_shards_and_drill(state, url):
    prefix, handed, refusal = STATES[state]

    def run(*words):
        return captured([*prefix, TERMGATE, *words], env=dict(clean, TERMGATE_DB=url), preexec_fn=handed, timeout=40)

    done = run("run", "--scope", f"shards {next(numbers)}", "--shards", "2", "--ttl", "2s", "--", "sh", "-c", "exit 4")
    drilled = run("drill", "--scope", "drilled", "--timeout", "5s", "--", "sh", "-c", "exit 4")
    if refusal:
        check("the shards are refused", done.returncode == 102 and refusal in done.stderr, done)
        check("the drill is refused", drilled.returncode == 2 and refusal in drilled.stderr, drilled)
    else:
        check("the shards end with COMMAND's status", done.returncode == 4, done)
        check("the drill says how it ended", "status 4" in drilled.stdout + drilled.stderr, drilled)
