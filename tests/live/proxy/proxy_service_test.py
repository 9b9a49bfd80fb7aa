#!/usr/bin/env python3
# Long: a case for each thing that an operator relies on.
"""The proxy as a service that somebody runs: drain, reload, descriptors that run out, systemd, HTTP, limits,
certificates, Unix sockets, IPv6, two on one port.

  pytest tests/live/proxy/proxy_service_test.py [--long] [-k drain]
"""
import os
import re
import shutil
import signal
import socket
import ssl
import stat
import struct
import subprocess
import sys
import threading
import time

import pytest

from checks import captured, check, eventually, note, stays
from given import LONG, ROOT, SANITIZED, TERMGATE
from proxy_lab import SYNC, Refused, Wire, bind, declared, execute, fields, parse, query, refusal, startup


@pytest.fixture(scope="module")
def server(lab):
    return lab.server("15", "max_connections=300")


def ended_within(process, seconds):
    """How long the process still ran, or None."""
    began = time.monotonic()
    try:
        process.wait(seconds)
        return time.monotonic() - began
    except subprocess.TimeoutExpired:
        return None


def waits_for_a_lock(server):
    """A statement waits for a table that another session has locked."""
    return server.sql("select count(*) from pg_locks where not granted") != ["0"]


DEAD = {
    "a statement": ([], query("insert into drained values (2)")),
    "a statement in a transaction": (["begin"], query("insert into drained values (2)")),
    "a thousand statements": ([], query("insert into drained values (2)") * 1000),
    "a large statement half sent": ([], query("insert into drained values (2)") + query("select '" + "x" * 3_000_000 + "'")[:2_000_000]),
    "an extended statement": ([], parse("", "insert into drained values (2)") + bind("", "") + execute() + SYNC),
}


@pytest.mark.parametrize("kind", ("declared", "undeclared"))
@pytest.mark.parametrize("name", DEAD)
def test_a_drain_does_not_wait_for_a_dead_client_with(name, kind, lab, server):
    prelude, sent = DEAD[name]
    server.sql("create table if not exists drained(i int)")
    holder = Wire(server.port)
    proxy = lab.proxy(server.url, "--drain-timeout", "60s", "--without-term", "allow")
    holder.ask("begin")
    holder.ask("lock table drained")
    dead = Wire(proxy.port, **(declared("drain", 7) if kind == "declared" else {}))
    for sql in prelude:
        dead.ask(sql)
    dead.socket.settimeout(0.5)
    try:
        dead.send(sent)
    except TimeoutError:
        pass
    check(f"drain: {name}, {kind}, waits at the server", eventually(lambda: waits_for_a_lock(server)))
    dead.close()
    proxy.process.send_signal(signal.SIGTERM)
    took = ended_within(proxy.process, 40)
    check(f"drain: a dead client with {name} waiting, {kind}, does not hold it up", took is not None, f"{took} s; {proxy.log()}")
    holder.ask("rollback")
    holder.close()


def test_a_drain_lets_each_session_come_to_its_end(lab, server):
    proxy = lab.proxy(server.url, "--drain-timeout", "4s")
    idle, busy, endless, slow = (Wire(proxy.port) for _ in range(4))
    for one in (busy, endless):
        one.ask("begin")
    slow.send(query("select pg_sleep(1.5), 'done'"))
    began = time.monotonic()
    proxy.process.send_signal(signal.SIGTERM)
    told = refusal(lambda: idle.until("Z"))
    check("drain: an idle session is told", told and told["C"] == "57P01", told)
    check("drain: an open transaction goes on", busy.ask("select 4")[0] == ["4"])
    busy.send(query("commit"))
    kinds = []
    told = None
    try:
        while True:
            kind, body = busy.message()
            kinds.append(kind)
            told = fields(body) if kind == "E" else told
    except Refused:
        pass
    check("drain: its COMMIT is answered, and then it is told", kinds[:1] == ["C"] and told and told["C"] == "57P01", (kinds, told))
    rows = None
    try:
        rows, _ = slow.until("C")
    except Refused as refused:
        rows = refused.args
    check("drain: a statement under way is answered", rows == [""] and time.monotonic() - began > 1, rows)
    told = refusal(lambda: endless.until("Z"))
    passed = time.monotonic() - began
    check(
        "drain: one that waits without end is told at the limit",
        told and told["C"] == "57P01" and "--drain-timeout" in told["M"] and 3.5 < passed < 6,
        (passed, told),
    )
    check("drain: and the status is 0", ended_within(proxy.process, 5) is not None and proxy.process.returncode == 0)
    check(
        "drain: the server has nobody left",
        eventually(lambda: server.sql("select count(*) from pg_stat_activity where backend_type = 'client backend'") == ["1"]),
    )


def test_a_drain_answers_clients_that_have_not_logged_in(lab, server):
    """One that has not greeted yet, and those that the proxy has not yet accepted."""
    proxy = lab.proxy(server.url, "--drain-timeout", "60s")
    slow_to_greet = Wire(proxy.port, login=False)
    eventually(lambda: proxy.metric("termgate_connections_greeting") == 1)
    proxy.process.send_signal(signal.SIGSTOP)
    queued = [Wire(proxy.port, login=False) for _ in range(50)]
    for one in queued[::2]:
        one.send(startup())
    proxy.process.send_signal(signal.SIGTERM)
    proxy.process.send_signal(signal.SIGCONT)
    proxy.logged(" draining")
    for one in (*queued[1::2], slow_to_greet):
        refusal(lambda: one.send(startup()))
    told = {one: refusal(lambda: one.until("Z")) for one in (*queued, slow_to_greet)}
    # A worker may have let somebody in who had greeted, before the signal reached it: that is an idle session then, and told as such.
    inside = [one for one in queued[::2] if told[one] is None]
    check(
        "drain: who is in the door is told",
        all(word and word["C"] == "57P03" for one, word in told.items() if one not in inside),
        told.values(),
    )
    told = [refusal(lambda: one.until("Z")) for one in inside]
    check("drain: who has just come in is told", all(word and word["C"] == "57P01" for word in told), told)
    took = ended_within(proxy.process, 30)
    check("drain: and does not hold it up", took is not None, took)


def test_a_drain_does_not_wait_for_a_client_that_sends_nothing(lab, server):
    proxy = lab.proxy(server.url, "--drain-timeout", "60s", "--greeting-timeout", "60s")
    mute = Wire(proxy.port, login=False)
    eventually(lambda: proxy.metric("termgate_connections_greeting") == 1)
    proxy.process.send_signal(signal.SIGTERM)
    took = ended_within(proxy.process, 30)
    check("drain: nor does one that says nothing", took is not None, took)
    mute.close()


def test_a_drain_cuts_a_client_that_does_not_read(lab, server):
    """It is in the way no longer than the limit and the time for the last message."""
    proxy = lab.proxy(server.url, "--drain-timeout", "1s")
    deaf = Wire(proxy.port, receive_buffer=4096)
    deaf.send(query("select repeat('x', 1000) from generate_series(1, 100000)"))
    stuck = "select count(*) from pg_stat_activity where query like '%generate_series(1, 100000)' and wait_event = 'ClientWrite'"
    check("drain: the server waits for a client that reads nothing", eventually(lambda: server.sql(stuck) == ["1"]))
    proxy.process.send_signal(signal.SIGTERM)
    took = ended_within(proxy.process, 20)
    check("drain: a client that reads nothing is cut", took is not None, took)


def test_a_reload_takes_all_or_nothing(lab, server):
    rules, config = f"{lab.folder}/rules", f"{lab.folder}/reload.conf"
    ca = lab.certificate("reload-ca")
    pair = lab.certificate("reload", "DNS:localhost", ca)

    def write(path, text):
        with open(path, "w") as file:
            file.write(text)

    def refused_message():
        error = refusal(lambda: Wire(proxy.port).close())
        return error and error["M"]

    write(rules, "[rule old]\nrefuse = the old rules\n")
    write(config, "max-connections = 7\n")
    proxy = lab.proxy(server.url, "--rules", rules, "--config", config, "--client-tls-cert", pair[1], "--client-tls-key", pair[0])
    check("reload: the first rules are in force", "the old rules" in (refused_message() or ""))
    write(rules, "[rule broken\nrefuse = never\n")
    write(config, "max-connections = 5\n")
    said = proxy.reload()
    check("reload: broken rules are named with file and line", "reload_failed" in said and "rules:1" in said, said)
    check("reload: broken rules leave the old ones", "the old rules" in (refused_message() or ""))
    check("reload: broken rules leave the limits of before too", proxy.metric("termgate_connections_limit") == 7)
    write(rules, "[rule new]\nrefuse = the new rules\n")
    write(config, "max-connections = 5\nclient-tls-cert = /nowhere/cert.pem\n")
    said = proxy.reload()
    check("reload: the command line wins over the file", " reloaded" in said and "the new rules" in (refused_message() or ""), said)
    write(rules, "[rule newer]\nrefuse = the newer rules\n")
    os.rename(pair[1], pair[1] + ".away")
    said = proxy.reload()
    check("reload: a missing certificate is named", "reload_failed" in said and pair[1] in said, said)
    check("reload: a missing certificate leaves the old rules too", "the new rules" in (refused_message() or ""))
    os.rename(pair[1] + ".away", pair[1])
    other = lab.certificate("reload-other", "DNS:localhost", ca)
    with open(other[0]) as key, open(pair[0]) as old:
        kept, others = old.read(), key.read()
    write(pair[0], others)
    said = proxy.reload()
    check("reload: a key of another certificate is refused", "reload_failed" in said, said)
    write(pair[0], kept)
    os.remove(rules)
    said = proxy.reload()
    check("reload: missing rules are named", "reload_failed" in said and rules in said, said)
    check("reload: missing rules let nobody in", "the new rules" in (refused_message() or ""))
    write(rules, "[rule open]\nuser = postgres\n")
    check(
        "reload: then all is well",
        " reloaded" in proxy.reload() and refused_message() is None and proxy.metric("termgate_connections_limit") == 5,
    )
    check("reload: ends cleanly", proxy.stop() == 0)


def listens(pid):
    """Whether the process has a TCP socket that listens."""
    listening = set()
    for table in ("tcp", "tcp6"):
        with open(f"/proc/{pid}/net/{table}") as file:
            listening |= {line.split()[9] for line in list(file)[1:] if line.split()[3] == "0A"}
    links = (os.path.join(f"/proc/{pid}/fd", name) for name in os.listdir(f"/proc/{pid}/fd"))
    return any(f"socket:[{inode}]" == os.readlink(link) for link in links for inode in listening)


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as file:
        parts = file.read().rsplit(")", 1)[1].split()
    return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")


def test_a_flood_that_uses_up_the_descriptors(lab, server):
    with open(lab.termgate, "rb") as file:
        if b"__ubsan_handle" in file.read():
            # UBSan finds out by a pipe whether an object's memory is there; without descriptors it takes every object for a wrong one.
            pytest.skip("UBSan cannot run without descriptors")
    proxy = lab.proxy(server.url, "--greeting-timeout", "60s", before=("sh", "-c", 'ulimit -n 64; exec "$@"', "sh"))
    with open(f"/proc/{proxy.process.pid}/limits") as file:
        check("descriptors: there are 64", re.search(r"Max open files\s+64\s+64", file.read()))
    check(
        "descriptors: the limits are lowered, and it is said",
        proxy.logged("limits_lowered") and 4 <= proxy.metric("termgate_connections_limit") <= 64,
        proxy.log(),
    )
    first = Wire(proxy.port)
    # HTTP keeps its connections open: with them the descriptors run out for good, whatever the clients' limits are.
    web = [socket.create_connection(("127.0.0.1", proxy.http)) for _ in range(60)]
    flood = []
    for _ in range(200):
        one = socket.create_connection(("127.0.0.1", proxy.port), timeout=5)
        one.setblocking(False)
        flood.append(one)
    check("descriptors: they have run out", proxy.logged(" (limit_met|accept_failed) ", 10))

    def quiet():
        """It has used no processor time for half a second, so it has dealt with what came."""
        now = cpu_seconds(proxy.process.pid)
        return stays(lambda: cpu_seconds(proxy.process.pid) <= now + 0.02, 0.5)

    check("descriptors: the flood has arrived", eventually(quiet, 10))
    before, began = cpu_seconds(proxy.process.pid), time.monotonic()
    time.sleep(3)
    spent = (cpu_seconds(proxy.process.pid) - before) / (time.monotonic() - began)
    check("descriptors: no busy loop while the flood stands", spent < (0.5 if SANITIZED else 0.15), f"{spent:.2f} of a core")
    note(f"{spent * 100:.1f} % of a core under the flood, {len(os.listdir(f'/proc/{proxy.process.pid}/fd'))} descriptors")
    check("descriptors: who is in is not touched", first.ask("select 5")[0] == ["5"])
    told = closed = 0
    for one in flood:
        try:
            data = one.recv(4096)
            told, closed = told + (b"C53300\0" in data), closed + (data == b"")
        except BlockingIOError:
            pass
        except ConnectionError:
            closed += 1
    check("descriptors: those over the limit are told", told > 20, f"{told} told, {closed} closed without a word, of {len(flood)}")
    lines = [line for line in proxy.log().splitlines() if "accept_failed" in line or "limit_met" in line]
    check("descriptors: the log says so at most once a second", 1 <= len(lines) <= 14, f"{len(lines)} lines")
    check("descriptors: the log names the limit", any("RLIMIT_NOFILE" in line for line in lines), lines)
    for one in flood + web:
        one.close()

    def in_service():
        return refusal(lambda: Wire(proxy.port, timeout=3).close()) is None

    check("descriptors: service is back after the flood", eventually(in_service, 10, 0.2))
    check(
        "descriptors: and HTTP",
        proxy.get("/readyz")[0] == 200 and proxy.metric('termgate_connections_refused_total{limit="descriptors"}') > 0,
    )
    left = len(os.listdir(f"/proc/{proxy.process.pid}/fd"))
    check("descriptors: none is lost", eventually(lambda: len(os.listdir(f"/proc/{proxy.process.pid}/fd")) < 40), left)
    first.close()
    proxy.stop()


class ServiceManager:
    """What systemd is to a service: hears its states, and starts it with sockets in descriptors 3 and up."""

    # exec keeps the process, so its number is known before the command is.
    STARTER = """
import os, sys
count, names, pid = int(sys.argv[1]), sys.argv[2], sys.argv[3]
os.environ.update(LISTEN_FDS=str(count), LISTEN_PID=str(os.getpid() if pid == "own" else pid))
if names:
    os.environ["LISTEN_FDNAMES"] = names
for i, given in enumerate(int(word) for word in sys.argv[4:4 + count]):
    os.dup2(given, 100 + i)
for i in range(count):
    os.dup2(100 + i, 3 + i)
    os.close(100 + i)
os.execv(sys.argv[4 + count], sys.argv[4 + count:])
"""

    def __init__(self, address):
        self.ear = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.ear.bind("\0" + address[1:] if address.startswith("@") else address)
        self.ear.settimeout(10)
        self.address = address

    def environment(self):
        return {**os.environ, "NOTIFY_SOCKET": self.address}

    def hears(self):
        try:
            return self.ear.recv(4096).decode()
        except TimeoutError:
            return "nothing"

    def silent(self):
        self.ear.settimeout(0.3)
        try:
            return self.hears() == "nothing"
        finally:
            self.ear.settimeout(10)

    @classmethod
    def hands_over(cls, sockets, names="", pid="own"):
        """Arguments of lab.proxy() that start it with these sockets."""
        return {
            "before": (sys.executable, "-c", cls.STARTER, str(len(sockets)), names, pid, *(str(one.fileno()) for one in sockets)),
            "pass_fds": [one.fileno() for one in sockets],
            "listen": [],
        }


def test_systemd_hears_every_state(lab, server):
    rules = f"{lab.folder}/notify.rules"
    for address in (f"{lab.folder}/notify", f"@termgate-test-{os.getpid()}"):
        kind = "abstract" if address.startswith("@") else "path"
        manager = ServiceManager(address)
        with open(rules, "w") as file:
            file.write("")
        proxy = lab.proxy(server.url, "--rules", rules, env=manager.environment())
        said = manager.hears()
        check(f"systemd: READY=1 to a socket with {kind} name", said == "READY=1", said)
        check("systemd: ready means that it takes clients", Wire(proxy.port).ask("select 1")[0] == ["1"])
        before = time.monotonic_ns() // 1000
        proxy.process.send_signal(signal.SIGHUP)
        said = manager.hears()
        moment = re.fullmatch(r"RELOADING=1\nMONOTONIC_USEC=(\d+)", said)
        check("systemd: RELOADING=1 with its moment", moment and before <= int(moment.group(1)) <= time.monotonic_ns() // 1000, said)
        check("systemd: READY=1 after it", manager.hears() == "READY=1")
        with open(rules, "w") as file:
            file.write("[rule\n")
        proxy.process.send_signal(signal.SIGHUP)
        said = [manager.hears(), manager.hears()]
        check(
            "systemd: a reload that fails is over too",
            said[0].startswith("RELOADING=1") and said[1] == "READY=1" and proxy.logged("reload_failed"),
            said,
        )
        proxy.process.send_signal(signal.SIGTERM)
        said = manager.hears()
        check("systemd: STOPPING=1", said == "STOPPING=1", said)
        check("systemd: ends with 0", ended_within(proxy.process, 5) is not None and proxy.process.returncode == 0)
        try:
            lab.proxy(server.url, "--client-tls-cert", "/nowhere.pem", env=manager.environment())
            check("systemd: what cannot start is not ready", False, "it started")
        except AssertionError as error:
            check(
                "systemd: what cannot start is not ready",
                manager.silent() and "cannot_start" in str(error) and "/nowhere.pem" in str(error),
                error,
            )


def test_without_a_manager_it_runs_all_the_same(lab, server):
    for address in (f"{lab.folder}/nobody", "x" * 300, "/" + "x" * 300, ""):
        proxy = lab.proxy(server.url, env={**os.environ, "NOTIFY_SOCKET": address})
        check(f"systemd: runs with NOTIFY_SOCKET={address[:40]}", Wire(proxy.port).ask("select 1")[0] == ["1"] and proxy.stop() == 0)


def test_sockets_handed_over_by_systemd(lab, server):
    def listener(family=socket.AF_INET, where=("127.0.0.1", 0), kind=socket.SOCK_STREAM):
        one = socket.socket(family, kind)
        one.bind(where)
        if kind == socket.SOCK_STREAM:
            one.listen(100)
        return one

    path = f"{lab.folder}/.s.PGSQL.7000"
    sockets = [listener(), listener(), listener(socket.AF_UNIX, path)]
    ports = [one.getsockname()[1] for one in sockets[:2]]
    rules = f"{lab.folder}/activation.rules"

    def write_rules(word):
        with open(rules, "w") as file:
            file.write("".join(f"[rule {name}]\nlistener = {name}\nrefuse = {word} {name}\n" for name in ("inside", "socket")))

    write_rules("by")
    proxy = lab.proxy(server.url, "--rules", rules, **ServiceManager.hands_over(sockets, "front:inside:socket"))
    for port in ports:
        proxy.logged(f"address=127.0.0.1:{port}\n")
    proxy.logged("address=unix:")
    log = proxy.log()
    check(
        "sockets: all are listened on",
        [f"address=127.0.0.1:{port}\n" in log for port in ports] == [True, True] and f"address=unix:{path}\n" in log,
        log,
    )
    check("sockets: the first serves", Wire(ports[0]).ask("select 1")[0] == ["1"] and proxy.logged(r"connection_opened .*listener=front "))
    told = [refusal(lambda: Wire(ports[1])), refusal(lambda: Wire(0, path=path))]
    check("sockets: rules know them by name", [one and one["M"] for one in told] == ["by inside", "by socket"], told)
    write_rules("again by")
    said = proxy.reload()
    told = refusal(lambda: Wire(ports[1]))
    check("sockets: a reload works without --listen", " reloaded" in said and told and told["M"] == "again by inside", said)

    # A restart: what comes meanwhile waits in the manager's sockets.
    kept = Wire(ports[0])
    kept.ask("begin")
    proxy.process.send_signal(signal.SIGTERM)
    proxy.logged(" draining")
    eventually(lambda: not listens(proxy.process.pid))  # it is logged before the listeners are closed
    waiting = socket.create_connection(("127.0.0.1", ports[0]), timeout=10)
    check("sockets: an open transaction is ended by its client", kept.ask("select 3")[0] == ["3"])
    kept.send(query("commit"))
    check("sockets: the first proxy ends", ended_within(proxy.process, 5) is not None)
    check("sockets: the Unix socket's file stays for the next", os.path.exists(path))
    second = lab.proxy(server.url, **ServiceManager.hands_over(sockets, "front:inside:socket"))
    late = Wire.__new__(Wire)
    late.socket, late.pid = waiting, None
    late.send(startup())
    check(
        "sockets: who came between two proxies is served by the second",
        refusal(lambda: late.until("Z")) is None and late.ask("select 6")[0] == ["6"],
    )
    check("sockets: and over the Unix socket", Wire(0, path=path).ask("select 7")[0] == ["7"])
    second.stop()

    unnamed = lab.proxy(server.url, **ServiceManager.hands_over(sockets[:1]))
    check("sockets: without names it is listen_fd", Wire(ports[0]).ask("select 1")[0] == ["1"] and unnamed.logged("listener=listen_fd "))
    unnamed.stop()
    both = lab.proxy(server.url, "--listen", "127.0.0.1:0", **ServiceManager.hands_over(sockets[:1], "front"))
    check(
        "sockets: beside --listen", len(both.ports) == 2 and all(Wire(port).ask("select 1")[0] == ["1"] for port in both.ports), both.log()
    )
    both.stop()

    def fails(**more):
        try:
            lab.proxy(server.url, **more).stop()
        except AssertionError as error:
            return str(error)
        return "it started"

    said = fails(**ServiceManager.hands_over(sockets[:1], pid="1"))
    check("sockets: those for another process are not ours", "no listener: give --listen" in said, said)
    datagrams = listener(kind=socket.SOCK_DGRAM)
    said = fails(**ServiceManager.hands_over([datagrams], "odd"))
    check("sockets: one for datagrams is refused", "odd" in said and "not a stream socket" in said, said)
    for one in (*sockets, datagrams):
        one.close()


def test_the_units_of_the_package_start_the_proxy(lab, server):
    """The units that docs/use/proxy.md speaks of are what systemd takes, and the sample of their options is what the proxy takes."""
    packaging = ROOT / "packaging"
    folder = f"{lab.folder}/units"
    os.mkdir(folder)
    for name in ("termgate-proxy.service", "termgate-proxy.socket"):
        # The command, its user and its manual are installed with the package, and are not here.
        text = (packaging / "systemd" / name).read_text().replace("/usr/bin/termgate", lab.termgate)
        text = text.replace("User=termgate\nGroup=termgate\n", "").replace("Documentation=man:termgate-proxy(1)\n", "")
        with open(f"{folder}/{name}", "w") as file:
            file.write(text)
    if shutil.which("systemd-analyze"):
        done = captured(
            ["systemd-analyze", "verify", f"{folder}/termgate-proxy.service", f"{folder}/termgate-proxy.socket"],
            env={**os.environ, "SYSTEMD_UNIT_PATH": f"{folder}:"},
        )
        ours = [line for line in (done.stdout + done.stderr).splitlines() if "termgate" in line]
        check("units: systemd-analyze verify has nothing to say of them", not ours, ours)
    else:
        note("no systemd-analyze here: the units are not verified")
    config = (packaging / "debian" / "proxy.conf").read_text().replace("#rules =", "rules =")
    with open(f"{folder}/backend", "w") as file:
        file.write(server.url + "\n")
    config = (
        config.replace("/etc/termgate/backend", f"{folder}/backend")
        .replace("http = 127.0.0.1:9090", "http = 127.0.0.1:0")
        .replace("/etc/termgate/rules", f"{folder}/rules")
    )
    with open(f"{folder}/proxy.conf", "w") as file:
        file.write(config)
    with open(f"{folder}/rules", "w"):
        pass
    front = socket.socket()
    front.bind(("127.0.0.1", 0))
    front.listen(10)
    handed = ServiceManager.hands_over([front], "front")
    manager = ServiceManager(f"{folder}/notify")
    with open(f"{folder}/log", "w") as log:
        process = lab.program(
            *handed["before"],
            lab.termgate,
            "proxy",
            "--config",
            f"{folder}/proxy.conf",
            pass_fds=handed["pass_fds"],
            env=manager.environment(),
            stdout=log,
            stderr=log,
        )
    said = manager.hears()
    check(
        "units: the proxy starts with the sample's options and the socket",
        said == "READY=1" and Wire(front.getsockname()[1]).ask("select 1")[0] == ["1"],
        open(f"{folder}/log").read(),
    )
    process.send_signal(signal.SIGHUP)
    check(
        "units: reloads",
        [manager.hears()[:11], manager.hears()] == ["RELOADING=1", "READY=1"]
        and eventually(lambda: " reloaded" in open(f"{folder}/log").read()),
    )
    process.terminate()
    check("units: stops", ended_within(process, 5) is not None and process.returncode == 0)
    front.close()


class Link:
    """A way to the server that can be cut and mended: a relay of bytes."""

    def __init__(self, port):
        self.to, self.whole, self.pairs, self.lock = port, True, [], threading.Lock()
        self.door = socket.socket()
        self.door.bind(("127.0.0.1", 0))
        self.door.listen(100)
        self.port = self.door.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.door.accept()
            except OSError:
                return
            if not self.whole:
                near.close()
                continue
            far = socket.create_connection(("127.0.0.1", self.to))
            with self.lock:
                self.pairs += [near, far]
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self.carry, args=(one, other), daemon=True).start()

    @staticmethod
    def carry(one, other):
        try:
            for piece in iter(lambda: one.recv(65536), b""):
                other.sendall(piece)
        except OSError:
            pass
        for end in (one, other):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self):
        with self.lock:
            self.whole = False
            for one in self.pairs:
                try:
                    one.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
            self.pairs.clear()

    def mend(self):
        self.whole = True


def test_leader_says_who_leads_through_cuts_and_drains(lab, server):
    server.sql("create table if not exists led(i int)")
    rules = f"{lab.folder}/leader.rules"
    with open(rules, "w") as file:
        file.write("[rule app]\napplication = leading*\nlease = leader-test \u00e9\nttl = 2 s\nholder = %application_name\n")
    link = Link(server.port)
    proxy = lab.proxy(server.url.replace(f":{server.port}/", f":{link.port}/"), "--rules", rules)
    other = lab.proxy(server.url, "--rules", rules)
    scope = "leader-test%20%C3%A9"

    def says(one=proxy, of=scope):
        return one.get(f"/leader?scope={of}")

    check("leader: nobody leads at first", says() == (503, "not leader\n"), says())
    client = Wire(proxy.port, application_name="leading-1")
    wrote = client.ask("insert into led values (1)")[1]
    check("leader: 200 while the lease is held", wrote is None and says() == (200, "leader\n"), (wrote, says()))
    check("leader: a + is a space", says(of="leader-test+%c3%a9")[0] == 200)
    check(
        "leader: HEAD answers the same without a body",
        http_raw(proxy, f"HEAD /leader?scope={scope} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").startswith(
            b"HTTP/1.1 200 "
        ),
    )
    check("leader: another instance does not lead", says(other)[0] == 503)
    check("leader: leases held are counted", proxy.metric("termgate_leases_held") == 1 and other.metric("termgate_leases_held") == 0)
    for name, path, status in (
        ("an unknown scope", "/leader?scope=nobody", 503),
        ("no parameter", "/leader", 400),
        ("an empty scope", "/leader?scope=", 400),
        ("another parameter only", "/leader?scop=x", 400),
        ("a broken escape", "/leader?scope=%zz", 400),
        ("half an escape", "/leader?scope=a%4", 400),
        ("a bare %", "/leader?scope=%", 400),
        ("two scopes", "/leader?scope=a&scope=b", 400),
        ("a NUL", "/leader?scope=%00", 400),
        ("bytes that are no text", "/leader?scope=%ff%fe", 400),
        ("a long scope", "/leader?scope=" + "x" * 3000, 400),
    ):
        check(f"leader: {name} is {status}", proxy.get(path)[0] == status, proxy.get(path))
    check(
        "leader: POST is refused",
        b" 405 "
        in http_raw(proxy, f"POST /leader?scope={scope} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
    )

    began = time.monotonic()
    link.cut()
    check(
        "leader: once its link is cut it says so by the lease's end",
        eventually(lambda: says()[0] == 503, 8, 0.05),
        f"{time.monotonic() - began:.1f} s",
    )
    check(
        "leader: not ready either, but alive",
        eventually(lambda: proxy.get("/readyz")[0] == 503, 3, 0.1) and proxy.get("/healthz")[0] == 200,
    )
    successor = Wire(other.port, application_name="leading-2")
    check(
        "leader: another instance's application takes over",
        eventually(lambda: successor.ask("insert into led values (2)")[1] is None, 10, 0.1) and says(other)[0] == 200,
    )
    link.mend()
    check(
        "leader: the first is ready again, and does not lead",
        eventually(lambda: proxy.get("/readyz")[0] == 200, 5, 0.1) and says()[0] == 503,
    )
    successor.close()
    check("leader: given back when the last session is gone", eventually(lambda: says(other)[0] == 503, 5, 0.05))
    check("leader: nobody does when it drains", leads_no_more_in_drain(other, says))
    link.door.close()
    proxy.stop()
    other.stop()


def leads_no_more_in_drain(proxy, says):
    client = Wire(proxy.port, application_name="leading-3")
    client.ask("begin")
    if not eventually(lambda: says(proxy)[0] == 200, 5):
        return False
    proxy.process.send_signal(signal.SIGTERM)
    proxy.logged(" draining")
    return says(proxy)[0] == 503 and proxy.get("/readyz")[0] == 503 and proxy.get("/healthz")[0] == 200


def http_raw(proxy, text):
    one = socket.create_connection(("127.0.0.1", proxy.http), timeout=10)
    one.sendall(text.encode())
    data = b""
    try:
        for piece in iter(lambda: one.recv(65536), b""):
            data += piece
    except ConnectionError:
        pass
    one.close()
    return data


def test_readyz_follows_a_server_that_dies_and_comes_back(lab, server):
    """Of a server of its own, that dies and comes back."""
    mortal = lab.server("15")
    proxy = lab.proxy(mortal.url)
    check("ready: with the server", proxy.get("/readyz") == (200, "ok\n"))
    client = Wire(proxy.port)
    lab.run(lab.pg_server, "kill", mortal.folder)
    check("ready: not once the server has died", eventually(lambda: proxy.get("/readyz") == (503, "unreachable\n"), 4, 0.1))
    check("ready: alive all the same", proxy.get("/healthz")[0] == 200)
    check("ready: a session of the dead server has ended", refusal(lambda: client.ask("select 1")) is not None)
    told = refusal(lambda: Wire(proxy.port))
    check("ready: a new client is told", told and told["C"] == "57P03", told)
    # A cluster: one proxy beside each node. libpq goes on to the next of them after this SQLSTATE and no other.
    other = lab.proxy(server.url)
    both = f"postgresql://postgres@127.0.0.1:{proxy.port},127.0.0.1:{other.port}/postgres?target_session_attrs=primary&connect_timeout=10"
    found = subprocess.run(["psql", "-qXAtc", "select 'found'", both], capture_output=True, text=True, timeout=60)
    check("ready: libpq goes on to a proxy whose server lives", found.stdout == "found\n", found)
    lab.run(lab.pg_server, "start", "15", mortal.folder)
    check(
        "ready: again when it is back",
        eventually(lambda: proxy.get("/readyz")[0] == 200, 5, 0.1) and Wire(proxy.port).ask("select 1")[0] == ["1"],
    )
    proxy.stop()


SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (\S+)')


def parsed_metrics(text):
    """The samples by name and labels, and the types; AssertionError where Prometheus's text format is broken."""
    samples, types, helped, current = {}, {}, set(), None
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            _, _, name, words = line.split(" ", 3)
            assert name not in helped and words, line
            helped.add(name)
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert kind in ("counter", "gauge", "histogram") and name not in types and name in helped, line
            types[name] = kind
            current = name
        else:
            found = SAMPLE.fullmatch(line)
            assert found, line
            name, labels, value = found.groups()
            family = re.sub(r"_(bucket|sum|count)$", "", name) if types.get(current) == "histogram" else name
            assert family == current, line
            assert (types[family] == "counter") == name.endswith("_total"), line
            assert (name, labels) not in samples, line
            samples[name, labels] = float(value)
            assert types[family] == "gauge" or samples[name, labels] >= 0, line
    for name, kind in types.items():
        if kind == "histogram":
            buckets = [
                (float(re.search(r'le="([^"]+)"', labels).group(1)), count)
                for (sample, labels), count in samples.items()
                if sample == name + "_bucket"
            ]
            assert buckets == sorted(buckets) and [count for _, count in buckets] == sorted(count for _, count in buckets), buckets
            assert buckets[-1][0] == float("inf") and buckets[-1][1] == samples[name + "_count", None], buckets
    return samples, types


def test_the_metrics_are_those_of_the_page_and_count_what_was_done(lab, server):
    server.sql("create table if not exists measured(i int)")
    proxy = lab.proxy(server.url, "--threads", "3", "--max-connections", "50")
    samples, types = parsed_metrics(proxy.get("/metrics")[1])
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text()
    told = dict(re.findall(r"^\| `(termgate_\w+)` \| (counter|gauge|histogram) \|", page, re.M))
    check(
        "metrics: the page names what is served, and nothing else",
        told == types,
        f"only the page: {set(told.items()) - set(types.items())}; only served: {set(types.items()) - set(told.items())}",
    )

    clients = [Wire(proxy.port, **declared(f"measured-{i}", 5)) for i in range(4)]
    for one in clients:
        one.ask("insert into measured values (1)")
    clients[0].ask("begin")
    samples, _ = parsed_metrics(proxy.get("/metrics")[1])
    check(
        "metrics: count what was done",
        samples["termgate_connections", None] == 4
        and samples["termgate_fenced_transactions_total", None] == 4
        and samples["termgate_check_seconds_count", None] == 4
        and 0 < samples["termgate_check_seconds_sum", None] < 10
        and samples["termgate_client_bytes_total", None] > 200,
        samples,
    )
    check(
        "metrics: open transactions within two seconds", eventually(lambda: proxy.metric("termgate_sessions_in_transaction") == 1, 3, 0.1)
    )

    for one in clients:
        one.close()
    proxy.stop()


def test_the_refusals_of_thousands_of_scopes_are_at_most_a_hundred_lines(lab, server):
    """Scopes whose names have nothing in common, and a refused write of each."""
    server.sql("create table if not exists measured(i int)")
    proxy = lab.proxy(server.url, "--threads", "3", "--max-connections", "50")
    clients = [Wire(proxy.port, **declared(f"measured-{i}", 5)) for i in range(4)]
    scopes = 10_000 if LONG else 1_000

    def word(number):
        return "".join(chr(ord("a") + number // 26**place % 26) for place in range(4))

    raiser = Wire(server.port)
    for start in range(0, scopes, 100):
        raiser.send(*(query(f"select termgate.check_term('{word(number)}-{number}', 5)") for number in range(start, start + 100)))
        for _ in range(100):
            raiser.until("Z")
    raiser.close()
    strangers = [Wire(proxy.port, options="-c termgate.term=4") for _ in range(3)]
    refused = 0
    for number in range(scopes):
        one = strangers[number % 3]
        one.send(query(f"set termgate.scope = '{word(number)}-{number}'"), query("insert into measured values (2)"))
        one.until("Z")
        error = one.until("Z")[1]
        refused += error is not None and error["C"] == "TG001"
    text = proxy.get("/metrics")[1]
    samples, _ = parsed_metrics(text)
    refusals = {labels: count for (name, labels), count in samples.items() if name == "termgate_refusals_total"}
    check(
        f"metrics: {scopes} scopes are at most a hundred lines",
        refused == scopes and 10 <= len(refusals) <= 102,
        f"{refused} refused, {len(refusals)} lines",
    )
    check("metrics: and every refusal is in one", sum(refusals.values()) == scopes, sum(refusals.values()))
    note(f"{len(refusals)} lines of refusals, {len(text)} bytes in all")
    odd = 'quote" back\\ line'
    clients[1].ask("set termgate.scope = '" + odd + "'")
    clients[1].ask("insert into measured values (2)")
    check("metrics: no scope breaks the text", parsed_metrics(proxy.get("/metrics")[1])[0] is not None)
    check(
        "metrics: nothing is left in them of who has gone",
        [one.close() for one in clients + strangers]
        and eventually(lambda: proxy.metric("termgate_connections") == 0)
        and proxy.metric("termgate_connections_peak") == 7,
    )
    proxy.stop()


def test_http_answers_while_its_places_are_taken(lab, server):
    """HTTP while it is busy: half-sent requests, and names that are not resolved."""
    proxy = lab.proxy(server.url)
    half = []
    for _ in range(63):
        one = socket.create_connection(("127.0.0.1", proxy.http))
        one.sendall(b"GET /healthz HTTP/1.1\r\nHost: loc")
        half.append(one)
    check("HTTP: answers beside 63 half-sent requests", proxy.get("/healthz", timeout=5)[0] == 200)
    half.append(socket.create_connection(("127.0.0.1", proxy.http)))
    began = time.monotonic()
    check(
        "HTTP: all its places taken, the one that was silent for longest goes",
        [proxy.get(path, timeout=15)[0] for path in ("/healthz", "/readyz", "/metrics", "/leader?scope=s")] == [200, 200, 200, 503]
        and time.monotonic() - began < 8,
        f"{time.monotonic() - began:.1f} s",
    )
    half += [socket.create_connection(("127.0.0.1", proxy.http)) for _ in range(300)]
    check("HTTP: nor do hundreds of them stop it", proxy.get("/readyz", timeout=5)[0] == 200)
    check("HTTP: clients do not mind", Wire(proxy.port).ask("select 1")[0] == ["1"])
    for one in half:
        one.close()
    proxy.stop()


def test_http_requests_that_are_wrong_get_their_status(lab, server):
    proxy = lab.proxy(server.url)
    for name, text, status in (
        ("garbage", "\x16\x03\x01 nonsense\r\n\r\n", 400),
        ("no host", "GET /metrics HTTP/1.1\r\nConnection: close\r\n\r\n", 400),
        ("no host in 1.0", "GET /metrics HTTP/1.0\r\n\r\n", 421),
        ("two hosts", "GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n", 400),
        ("one host twice", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nhost: localhost\r\nConnection: close\r\n\r\n", 400),
        ("a foreign host", "GET /leader?scope=x HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n", 421),
        ("an IPv6 host", "GET /healthz HTTP/1.1\r\nHost: [::1]:80\r\nConnection: close\r\n\r\n", 200),
        ("a body", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello", 413),
    ):
        data = http_raw(proxy, text)
        check(f"HTTP: {name} is {status}", data.startswith(f"HTTP/1.1 {status} ".encode()), data[:100])
    proxy.stop()


def nobody_left(server, proxy, name):
    gone = eventually(
        lambda: proxy.metric("termgate_connections") == 0
        and proxy.metric("termgate_connections_greeting") == 0
        and server.sql("select count(*) from pg_stat_activity where backend_type = 'client backend' and application_name like 'limits%'")
        == ["0"]
    )
    check(f"limits: {name}: nothing is held", gone, proxy.get("/metrics")[1])


LIMITS = {
    "user": ({"user": "limited"}, {}),
    "database": ({"database": "limited"}, {}),
    "address": ({}, {"host": "127.0.0.1", "source": "127.0.0.5"}),
}


@pytest.fixture(scope="module")
def limited(server):
    server.sql("create role limited login")
    server.sql("create database limited")


@pytest.mark.parametrize("option", LIMITS)
def test_one_too_many_is_refused_by(option, lab, server, limited):
    mine, others = LIMITS[option]
    proxy = lab.proxy(server.url, f"--max-connections-per-{option}", "2")
    clients = [Wire(proxy.port, application_name="limits", **mine) for _ in range(2)]
    told = refusal(lambda: Wire(proxy.port, application_name="limits", **mine))
    check(
        f"limits: a third of one {option} is told",
        told and told["C"] == "53300" and f"the proxy's limit is 2 (--max-connections-per-{option})" in told["M"],
        told,
    )
    check(
        f"limits: another {option} gets in", refusal(lambda: clients.append(Wire(proxy.port, application_name="limits", **others))) is None
    )
    check(
        f"limits: refusals by {option} are counted",
        proxy.metric(f'termgate_connections_refused_total{{limit="{option}"}}') == 1 and proxy.logged("limit_met"),
    )
    clients.pop(0).close()
    check(
        f"limits: a place of that {option} is given again",
        eventually(lambda: refusal(lambda: clients.append(Wire(proxy.port, application_name="limits", **mine))) is None),
    )
    for one in clients:
        one.close()
    nobody_left(server, proxy, option)
    # Who does not get in, or dies on the way, holds no place.
    for _ in range(5):
        refusal(lambda: Wire(proxy.port, application_name="limits", user="nobody-of-that-name"))
        dying = Wire(proxy.port, login=False)
        dying.send(startup(application_name="limits", **mine))
        dying.close()
    nobody_left(server, proxy, f"{option}, logins that fail")
    check(
        f"limits: all places of that {option} are free after it",
        refusal(lambda: [Wire(proxy.port, application_name="limits", **mine).close() for _ in range(2)]) is None,
    )
    proxy.stop()


def test_what_is_too_long_or_silent_too_long_is_cut(lab, server):
    proxy = lab.proxy(
        server.url,
        *"--max-statement-bytes 2000 --max-message-bytes 100000 --idle-timeout 700ms --idle-in-transaction-timeout 700ms".split(),
    )

    def held(*pieces, before=()):
        client = Wire(proxy.port, application_name="limits")
        for sql in before:
            client.ask(sql)
        client.send(*pieces)
        told = refusal(lambda: client.until("Z"))
        check("limits: and the connection is closed", refusal(lambda: client.message()) is not None)
        return told or {"C": "none", "M": ""}

    long_text = "select '" + "x" * 3000 + "'"
    for name, told, code, words in (
        ("a long statement", held(query(long_text)), "08P01", "--max-statement-bytes"),
        ("a long Parse", held(parse("", long_text), SYNC), "08P01", "--max-statement-bytes"),
        ("a long statement in a transaction", held(query(long_text), before=["begin"]), "08P01", "--max-statement-bytes"),
        ("a large Bind", held(parse("", "select $1::text"), bind("", "", b"x" * 200_000), execute(), SYNC), "08P01", "--max-message-bytes"),
        ("a session that says nothing", held(), "57P05", "idle-session timeout of the proxy"),
        ("a transaction that says nothing", held(before=["begin"]), "25P03", "idle-in-transaction timeout of the proxy"),
        ("a failed transaction that says nothing", held(before=["begin", "selec"]), "25P03", "idle-in-transaction timeout of the proxy"),
    ):
        check(f"limits: {name} gets {code}", told["C"] == code and words in told["M"], told)
    slow = Wire(proxy.port, application_name="limits")
    check("limits: a slow statement is not silence", slow.ask("select pg_sleep(1.5)")[1] is None)
    slow.close()
    nobody_left(server, proxy, "sizes and silence")
    check("limits: no memory of them is kept", eventually(lambda: proxy.metric("termgate_session_bytes") == 0, 3))
    proxy.stop()


@pytest.mark.parametrize("mode", ("disable", "prefer"))
def test_a_silent_server_is_given_up_at_the_login_timeout(mode, lab):
    mute = socket.socket()
    mute.bind(("127.0.0.1", 0))
    mute.listen(10)
    proxy = lab.proxy(f"postgresql://postgres@127.0.0.1:{mute.getsockname()[1]}/postgres?sslmode={mode}", "--login-timeout", "700ms")
    began = time.monotonic()
    told = refusal(lambda: Wire(proxy.port))
    check(
        f"limits: a server that says nothing is given up at the login timeout ({mode})",
        told and told["C"] == "57014" and "login timeout" in told["M"] and 0.6 < time.monotonic() - began < 8,
        told,
    )
    half = Wire(proxy.port, login=False)
    half.send(startup()[:20])
    told = refusal(lambda: half.until("Z"))
    check(f"limits: and half a start-up message ({mode})", told and told["C"] == "57014", told)
    check(
        "limits: neither holds a place",
        eventually(lambda: proxy.metric("termgate_connections") == 0 and proxy.metric("termgate_connections_greeting") == 0),
    )
    proxy.stop()
    mute.close()


def tls(port, ca, pair=None, login=True, before=b"", direct=False):
    """A client in TLS, with a certificate of its own perhaps."""
    wire = Wire(port, login=False, before=before)
    context = ssl.create_default_context(cafile=ca[1])
    context.set_alpn_protocols(["postgresql"])
    if pair:
        context.load_cert_chain(pair[1], pair[0])
    if not direct:
        wire.send(struct.pack("!II", 8, 80877103))
        if wire.exactly(1) != b"S":
            raise Refused("no TLS")
    wire.socket = context.wrap_socket(wire.socket, server_hostname="localhost")
    if login:
        wire.send(startup())
        wire.until("Z")
    return wire


def proxied(client, server="127.0.0.1"):
    """A PROXY header of version 2 that brings this client."""
    family = socket.AF_INET6 if ":" in client else socket.AF_INET
    if family == socket.AF_INET6:
        server = "::1"
    body = socket.inet_pton(family, client) + socket.inet_pton(family, server) + struct.pack("!HH", 4321, 5432)
    return b"\r\n\r\n\0\r\nQUIT\n\x21" + (b"\x21" if family == socket.AF_INET6 else b"\x11") + struct.pack("!H", len(body)) + body


class Certificates:
    """Two authorities; certificates of the proxy, of a good client, of a foreign one, of an old one; `files`: the proxy's options."""

    def __init__(self, lab):
        self.ca, self.other = lab.certificate("ca"), lab.certificate("other-ca")
        self.pair = lab.certificate("localhost", "DNS:localhost", self.ca)
        self.good, self.foreign = lab.certificate("client", None, self.ca), lab.certificate("foreign", None, self.other)
        self.old = lab.certificate("old", None, self.ca, "-1")
        self.files = ("--client-tls-cert", self.pair[1], "--client-tls-key", self.pair[0], "--client-tls-ca", self.ca[1])
        self.files += ("--listen", "lb=127.0.0.1:0,proxy", "--trust-backend")


@pytest.fixture(scope="module")
def certified(lab):
    return Certificates(lab)


def test_client_certificates_that_are_required(lab, server, certified):
    ca, good = certified.ca, certified.good
    proxy = lab.proxy(server.url, *certified.files)
    check("client certificates: a good one gets in", tls(proxy.port, ca, good).ask("select 1")[0] == ["1"])
    check("client certificates: by direct TLS too", tls(proxy.port, ca, good, direct=True).ask("select 1")[0] == ["1"])
    for name, shown in (("none", None), ("a foreign one", certified.foreign), ("one that has expired", certified.old)):
        time.sleep(1.1)  # the log has one line a second about an address
        for direct in (False, True):
            check(
                f"client certificates: {name} is refused{' by direct TLS' if direct else ''}",
                refusal(lambda: tls(proxy.port, ca, shown, direct=direct).ask("select 1")) is not None,
            )
    check(
        "client certificates: the log says why",
        all(
            proxy.logged(f"tls_failed .*{words}")
            for words in ("peer did not return a certificate", "unable to get local issuer certificate", "certificate has expired")
        ),
        proxy.log(),
    )
    told = refusal(lambda: Wire(proxy.ports[1], before=proxied("192.0.2.7")))
    check("client certificates: clear text is no way round them", told and told["C"] == "28000", told)
    check(
        "client certificates: the header's client with one gets in",
        tls(proxy.ports[1], ca, good, before=proxied("192.0.2.7")).ask("select 1")[0] == ["1"],
    )
    proxy.stop()


def test_client_certificates_that_are_optional(lab, server, certified):
    ca, good = certified.ca, certified.good
    proxy = lab.proxy(server.url, *certified.files, "--client-cert", "optional")
    check(
        "client certificates: optional takes none and a good one",
        all(tls(proxy.port, ca, shown).ask("select 1")[0] == ["1"] for shown in (None, good)),
    )
    check(
        "client certificates: optional refuses a foreign one",
        refusal(lambda: tls(proxy.port, ca, certified.foreign).ask("select 1")) is not None,
    )
    check("client certificates: optional takes clear text", Wire(proxy.ports[1], before=proxied("192.0.2.7")).ask("select 1")[0] == ["1"])
    proxy.stop()


def test_client_certificate_options_that_need_others(lab, server, certified):
    ca, pair = certified.ca, certified.pair
    for options, words in (
        (("--client-tls-ca", ca[1]), "--client-tls-ca"),
        (("--require-tls",), "--require-tls"),
        (("--client-tls-key", pair[0]), "--client-tls-key"),
        (("--client-tls-cert", pair[1], "--client-tls-key", pair[0], "--client-cert", "required"), "--client-tls-ca"),
    ):
        try:
            lab.proxy(server.url, *options).stop()
            check(f"client certificates: {options[0]} alone is an error", False, "it started")
        except AssertionError as error:
            check(f"client certificates: {options[0]} alone is an error", words in str(error) and "ended with 2" in str(error), error)


@pytest.fixture(scope="module")
def strict(lab, certified):
    """A server that requires a certificate of the proxy; `tls_url` names its root, `own` the proxy's good certificate."""
    ca, good = certified.ca, certified.good
    shown = lab.certificate("server", "DNS:localhost", ca)
    if os.geteuid() == 0:
        shutil.chown(shown[0], "postgres")
    os.chmod(shown[0], 0o600)
    strict = lab.server("15", "ssl=on", f"ssl_cert_file={shown[1]}", f"ssl_key_file={shown[0]}", f"ssl_ca_file={ca[1]}")
    with open(f"{strict.folder}/data/pg_hba.conf", "r+") as file:
        file.write("local all all trust\nhostssl all all 127.0.0.1/32 trust clientcert=verify-ca\n")
        file.truncate()
    lab.run(lab.pg_server, "stop", strict.folder)
    lab.run(lab.pg_server, "start", "15", strict.folder)
    url = f"postgresql://postgres@localhost:{strict.port}/postgres?hostaddr=127.0.0.1&sslmode=verify-full&sslrootcert={ca[1]}"
    strict.shown, strict.tls_url, strict.own = shown, url, f"&sslcert={good[1]}&sslkey={good[0]}"
    return strict


def test_mutual_tls_with_a_server_that_requires_a_certificate(lab, certified, strict):
    url, own = strict.tls_url, strict.own
    proxy = lab.proxy(url + own)
    client = Wire(proxy.port)
    check(
        "mutual TLS: the server knows the proxy's certificate",
        client.ask("select ssl and client_dn = '/CN=client' from pg_stat_ssl where pid = pg_backend_pid()")[0] == ["t"],
    )
    client.send(query("select pg_sleep(20)"))
    client.close()
    proxy.stop()
    proxy = lab.proxy(url)
    told = refusal(lambda: Wire(proxy.port))
    check("mutual TLS: without one the server's refusal reaches the client", told and told["C"] in ("28000", "08006"), told)
    proxy.stop()


def test_mutual_tls_that_fails_says_why(lab, certified, strict):
    url, own, ca, good = strict.tls_url, strict.own, certified.ca, certified.good
    expired = lab.certificate("expired", "DNS:localhost", ca, "-1")
    for name, to, words in (
        ("a wrong name", url.replace("@localhost:", "@db.example:") + own, "hostname mismatch"),
        ("a wrong address", url.replace("@localhost:", "@127.0.0.1:") + own, "IP address mismatch"),
        ("another root", url.replace(ca[1], certified.other[1]) + own, "certificate"),
        ("an expired certificate of the proxy", url + f"&sslcert={expired[1]}&sslkey={expired[0]}", "expired"),
    ):
        proxy = lab.proxy(to)
        told = refusal(lambda: Wire(proxy.port))
        check(f"mutual TLS: {name} is told", told and told["C"] == "08006" and words in told["M"], told)
        check(f"mutual TLS: {name} is logged", proxy.logged(f"(tls_failed .*with=server|login_refused) .*{words}"), proxy.log())
        proxy.stop()
    for name, bad, words in (
        ("a missing key", f"&sslcert={good[1]}&sslkey=/nowhere.key", "/nowhere.key"),
        ("a foreign key", f"&sslcert={good[1]}&sslkey={certified.foreign[0]}", certified.foreign[0]),
    ):
        try:
            lab.proxy(url + bad).stop()
            check(f"mutual TLS: {name} does not start", False)
        except AssertionError as error:
            check(f"mutual TLS: {name} does not start", words in str(error) and "cannot_start" in str(error), error)


def test_mutual_tls_with_a_server_whose_certificate_has_expired(lab, certified, strict):
    url, own, ca, shown = strict.tls_url, strict.own, certified.ca, strict.shown
    shutil.copyfile(lab.certificate("server-old", "DNS:localhost", ca, "-1")[1], shown[1])
    shutil.copyfile(f"{lab.folder}/server-old.key", shown[0])
    lab.run(lab.pg_server, "stop", strict.folder)
    lab.run(lab.pg_server, "start", "15", strict.folder)
    proxy = lab.proxy(url + own)
    told = refusal(lambda: Wire(proxy.port))
    check(
        "mutual TLS: a server's expired certificate is told", told and told["C"] == "08006" and "certificate has expired" in told["M"], told
    )
    proxy.stop()


def test_a_cancel_request_waits_for_a_server_whose_queue_is_full(lab, server, tmp_path):
    """The proxy's server is a Unix socket of ours here, which passes on to the real one what it accepts."""
    front = socket.socket(socket.AF_UNIX)
    path = str(tmp_path / ".s.PGSQL.5432")
    front.bind(path)
    front.listen(0)
    accepts = threading.Event()
    accepts.set()

    def carry(source, target):
        try:
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def serve():
        while True:
            accepts.wait()
            try:
                near, _ = front.accept()
            except OSError:
                return
            accepts.wait()
            far = socket.socket(socket.AF_UNIX)
            far.connect(f"{server.folder}/.s.PGSQL.{server.port}")
            for pair in ((near, far), (far, near)):
                threading.Thread(target=carry, args=pair, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    url = f"postgresql://postgres@/postgres?host={tmp_path}&port=5432"
    proxy, impatient = lab.proxy(url), lab.proxy(url, "--connect-timeout", "1s")
    client = Wire(proxy.port)
    client.send(query("select pg_sleep(60)"))
    running = f"select count(*) from pg_stat_activity where pid = {client.pid} and query like '%pg_sleep%' and state = 'active'"
    check("a full queue: a statement runs", eventually(lambda: server.sql(running) == ["1"]))
    accepts.clear()
    held = []

    def is_full():
        one = socket.socket(socket.AF_UNIX)
        one.setblocking(False)
        held.append(one)
        return one.connect_ex(path) != 0

    check("a full queue: no connection is taken", eventually(is_full) and stays(is_full, 0.5))
    cancelling = socket.create_connection(("127.0.0.1", proxy.port))
    cancelling.sendall(struct.pack("!III", 12 + len(client.key), 80877102, client.pid) + client.key)
    check("a full queue: the cancel request waits", stays(lambda: server.sql(running) == ["1"], 0.5))
    told = refusal(lambda: Wire(impatient.port))
    check("a full queue: a client waits as long as --connect-timeout says", told and "--connect-timeout" in told["M"], told)
    impatient.stop()
    for one in held:
        one.close()
    accepts.set()
    check("a full queue: the cancel request comes", client.until("Z")[1]["C"] == "57014")
    proxy.stop()
    front.close()


def test_unix_sockets_on_both_sides(lab, server):
    path = f"{lab.folder}/.s.PGSQL.6432"
    proxy = lab.proxy(
        f"postgresql://postgres@/postgres?host={server.folder}&port={server.port}",
        "--unix-mode",
        "0660",
        "--max-connections-per-address",
        "3",
        listen=[f"local=unix:{path}", "127.0.0.1:0"],
    )
    check("Unix: the socket has the mode", stat.S_IMODE(os.stat(path).st_mode) == 0o660, oct(os.stat(path).st_mode))
    client = Wire(0, path=path)
    check(
        "Unix: both ways",
        client.ask("select inet_client_addr() is null")[0] == ["t"] and proxy.logged("connection_opened .*client=local listener=local "),
    )
    big = client.ask("select repeat('x', 5000000)")[0]
    check("Unix: a large row comes whole", len(big[0]) == 5_000_000)
    client.send(query("select pg_sleep(20)"))
    running = f"select count(*) from pg_stat_activity where pid = {client.pid} and query like '%pg_sleep%' and state = 'active'"
    check("Unix: a statement runs", eventually(lambda: server.sql(running) == ["1"]))
    cancelling = socket.socket(socket.AF_UNIX)
    cancelling.connect(path)
    cancelling.sendall(struct.pack("!III", 12 + len(client.key), 80877102, client.pid) + client.key)
    check("Unix: a cancel request goes both ways", client.until("Z")[1]["C"] == "57014")
    more = [Wire(0, path=path) for _ in range(2)]
    told = refusal(lambda: Wire(0, path=path))
    check(
        "Unix: its clients are one address to the limits",
        told and told["C"] == "53300" and "--max-connections-per-address" in told["M"],
        told,
    )
    check("Unix: TCP's are another", Wire(proxy.ports[1]).ask("select 1")[0] == ["1"])
    try:
        lab.proxy(server.url, listen=[f"unix:{path}"])
        check("Unix: a second proxy on a live socket is refused", False)
    except AssertionError as error:
        check("Unix: a second proxy on a live socket is refused", "another process listens there" in str(error), error)
    check(
        "Unix: the first did not notice",
        more[0].ask("select 1")[0] == ["1"]
        and more.pop().close() is None
        and eventually(lambda: refusal(lambda: Wire(0, path=path)) is None),
    )
    proxy.process.kill()
    proxy.process.wait()
    check("Unix: a killed proxy leaves its socket", os.path.exists(path))
    proxy = lab.proxy(server.url, listen=[f"unix:{path}"])
    check(
        "Unix: the next takes the place of the dead one's",
        Wire(0, path=path).ask("select 1")[0] == ["1"] and stat.S_IMODE(os.stat(path).st_mode) == 0o777,
    )
    proxy.stop()
    check("Unix: one that ends takes its socket along", not os.path.exists(path))
    with open(path, "w") as file:
        file.write("precious")
    try:
        lab.proxy(server.url, listen=[f"unix:{path}"])
        check("Unix: a file that is no socket is left alone", False, "it started")
    except AssertionError as error:
        check("Unix: a file that is no socket is left alone", "not a socket" in str(error) and open(path).read() == "precious", error)


def test_the_servers_unix_socket_goes_and_comes_back(lab):
    mortal = lab.server("15")
    proxy = lab.proxy(f"postgresql://postgres@/postgres?host={mortal.folder}&port={mortal.port}")
    check("Unix: ready with the server's socket", proxy.get("/readyz")[0] == 200)
    mortal.stop()
    told = refusal(lambda: Wire(proxy.port))
    check(
        "Unix: without it the client is told where it was looked for",
        told and told["C"] == "57P03" and f".s.PGSQL.{mortal.port}" in told["M"],
        told,
    )
    check("Unix: and it is not ready", eventually(lambda: proxy.get("/readyz")[0] == 503, 3, 0.1))
    lab.run(lab.pg_server, "start", "15", mortal.folder)
    check("Unix: and back", eventually(lambda: refusal(lambda: Wire(proxy.port)) is None))
    proxy.stop()


def refused_start(lab, backend, **more):
    """What a proxy prints that does not start."""
    try:
        lab.proxy(backend, **more).stop()
    except AssertionError as error:
        return str(error)
    return "it started"


@pytest.fixture(scope="module")
def loopback6():
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError as error:
        pytest.skip(f"no ::1 here ({error})")


def test_ipv6_addresses_need_brackets(lab, server):
    for listen in ("::1:6432", "::1", "[::1]", "[::1:6432"):
        said = refused_start(lab, server.url, listen=[listen])
        check(f"IPv6: --listen {listen} is refused with the right form", "[IPV6]:PORT" in said and "ended with 2" in said, said)
    for backend in ("postgresql://postgres@::1:5432/postgres", "postgresql://postgres@fe80::1/postgres"):
        said = refused_start(lab, backend)
        check(f"IPv6: --backend {backend} is refused with the right form", "in brackets" in said and "ended with 2" in said, said)


def test_rules_know_ipv6_clients_and_mapped_ones(lab, server):
    rules = f"{lab.folder}/v6.rules"
    with open(rules, "w") as file:
        file.write(
            "[rule six]\nclient = 2001:db8:7::/48\nrefuse = six\n[rule four]\nclient = 192.0.2.0/24\nrefuse = four\n[rule mapped]\nclient ="
            " ::ffff:198.51.100.7\nrefuse = mapped\n"
        )
    proxy = lab.proxy(server.url, "--rules", rules, "--trust-backend", listen=["127.0.0.1:0", "lb=127.0.0.1:0,proxy"])
    for client, rule in (
        ("2001:db8:7::9", "six"),
        ("2001:db8:8::9", None),
        ("192.0.2.9", "four"),
        ("::ffff:192.0.2.9", "four"),
        ("198.51.100.7", "mapped"),
        ("::ffff:198.51.100.7", "mapped"),
        ("::ffff:198.51.100.8", None),
    ):
        told = refusal(lambda: Wire(proxy.ports[1], before=proxied(client)))
        check(f"IPv6: a client {client} meets the rule {rule}", (told and told["M"]) == rule, told)
    check("IPv6: the header's client is in the log", proxy.logged(r"connection_opened .*client=\[2001:db8:8::9\]:4321 listener=lb"))
    proxy.stop()


def test_ipv6_on_both_sides(lab, loopback6):
    six = lab.server("15", "listen_addresses=127.0.0.1,::1")
    for backend in (
        f"postgresql://postgres@[::1]:{six.port}/postgres",
        f"postgresql://postgres@/postgres?host=::1&port={six.port}",
        f"postgresql://postgres@db.example/postgres?hostaddr=::1&port={six.port}",
    ):
        proxy = lab.proxy(backend, "--max-connections-per-address", "2", listen=["[::1]:0", "127.0.0.1:0"])
        client = Wire(proxy.ports[0], host="::1")
        check(
            f"IPv6: both ways by {backend.split('@')[1].split('/')[0] or 'host='}",
            client.ask("select inet_client_addr()::text")[0] == ["::1/128"],
        )
        check("IPv6: ready, and the client's address in the log", proxy.get("/readyz")[0] == 200 and proxy.logged(r"client=\[::1\]:\d+ "))
        second = Wire(proxy.ports[0], host="::1")
        told = refusal(lambda: Wire(proxy.ports[0], host="::1"))
        check("IPv6: limits by address", told and told["C"] == "53300" and Wire(proxy.ports[1]).ask("select 1")[0] == ["1"], told)
        second.close()
        proxy.stop()


def test_rules_by_the_loopback_addresses(lab, server, loopback6):
    rules = f"{lab.folder}/loop.rules"
    with open(rules, "w") as file:
        file.write("[rule loop]\nclient = ::1\nrefuse = loop\n[rule four]\nclient = 127.0.0.0/8\nrefuse = four\n")
    both = socket.socket(socket.AF_INET6)
    both.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    both.bind(("::ffff:127.0.0.1", 0))
    both.listen(10)
    proxy = lab.proxy(server.url, "--rules", rules, **{**ServiceManager.hands_over([both], "both"), "listen": ["[::1]:0"]})
    told = [refusal(lambda: Wire(proxy.port, host="::1")), refusal(lambda: Wire(both.getsockname()[1]))]
    check("IPv6: rules by the client's own address, and by a mapped one", [one and one["M"] for one in told] == ["loop", "four"], told)
    proxy.stop()
    both.close()


def test_an_ipv6_address_in_use_is_named(lab, server, loopback6):
    free = socket.socket(socket.AF_INET6)
    free.bind(("::1", 0))
    said = refused_start(lab, server.url, listen=[f"[::1]:{free.getsockname()[1]}"])
    check("IPv6: an address in use is named", "cannot listen on ::1:" in said or "cannot listen on [::1]:" in said, said)
    free.close()


def test_a_port_is_taken_over_under_clients_that_keep_coming(lab, server):
    """Two proxies on one port: one after the other takes it over under clients that keep coming."""
    first = lab.proxy(server.url, "--reuse-port")
    port = first.port
    stop, outcomes = threading.Event(), []

    def keep_coming():
        while not stop.is_set():
            try:
                one = Wire(port)
                one.ask("select 1")
                one.close()
                outcomes.append("served")
            except Refused as refused:
                error = refused.args[0]
                outcomes.append(error["C"] if isinstance(error, dict) else "closed")
            except OSError as error:
                outcomes.append(repr(error))

    comers = [threading.Thread(target=keep_coming) for _ in range(4)]
    for one in comers:
        one.start()
    served = lambda: outcomes.count("served")  # noqa: E731
    eventually(lambda: served() > 20)
    previous = first
    for _ in range(5):
        following = lab.proxy(server.url, "--reuse-port", port=port)
        check("takeover: the next is ready beside the one before", following.get("/readyz")[0] == 200)
        before = served()
        check("takeover: clients are served by both", eventually(lambda: served() > before + 20))
        previous.process.send_signal(signal.SIGTERM)
        check("takeover: the one before ends", ended_within(previous.process, 10) is not None and previous.process.returncode == 0)
        before = served()
        check("takeover: clients are served by the next alone", eventually(lambda: served() > before + 20))
        previous = following
    stop.set()
    for one in comers:
        one.join()
    others = {word: outcomes.count(word) for word in set(outcomes) - {"served"}}
    note(f"{served()} served, else {others}")
    check("takeover: nobody finds the port closed", not any("Refused" in word for word in others), others)
    # Who sends its start-up message to a connection that has been closed behind 57P03 is reset.
    told = sum(count for word, count in others.items() if word in ("57P01", "57P03"))
    check("takeover: who is not served is told to come again", sum(others.values()) - told <= 3 and told <= 30 and served() > 100, others)
    previous.stop()


def test_help_names_the_proxys_options_and_no_others(server):
    def said(*words, status=0):
        done = subprocess.run([TERMGATE, *words], capture_output=True, text=True)
        check(f"help: termgate {' '.join(words)} ends with {status}", done.returncode == status, done)
        return done.stdout + done.stderr

    text = said("help", "proxy")
    check("help: of the proxy names no --db", "--db" not in text and "--backend" in text and "--schema" in text, text)
    check("help: --db is no option of it", "--db" in said("proxy", "--db", server.url, "--listen", "127.0.0.1:0", status=2))
