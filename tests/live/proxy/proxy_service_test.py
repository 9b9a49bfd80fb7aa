#!/usr/bin/env python3
"""The proxy as a service that somebody runs: drain, reload, descriptors that run out, systemd, who leads, metrics, two on one port. Its
sockets are in proxy_net_test.py.

  pytest tests/live/proxy/proxy_service_test.py [-k drain]
"""
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from checks import captured, check, eventually, note, stays
from given import ROOT, SANITIZED
from proxy_lab import SYNC, Refused, Wire, bind, declared, execute, fields, parse, query, refusal, startup


@pytest.fixture(scope="module")
def server(lab):
    return lab.server("15", "max_connections=300")


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def ended_within(process, seconds):
    """How long the process still ran, or None."""
    began = time.monotonic()
    try:
        process.wait(seconds)
        return time.monotonic() - began
    except subprocess.TimeoutExpired:
        return None


INSERT = query("insert into drained values (2)")
# Whether the client declares a term, what it has sent before, and what it sends last.
DEAD = {
    "a statement": (declared("drain", 7), [], INSERT),
    "a statement in a transaction": ({}, ["begin"], INSERT),
    "a thousand statements": (declared("drain", 7), [], INSERT * 1000),
    "a large statement half sent": ({}, [], INSERT + query("select '" + "x" * 3_000_000 + "'")[:2_000_000]),
    "an extended statement": (declared("drain", 7), [], parse("", "insert into drained values (2)") + bind("", "") + execute() + SYNC),
}


@pytest.mark.parametrize("name", DEAD)
def test_a_drain_does_not_wait_for_a_dead_client_with(name, lab, server):
    claim, before, sent = DEAD[name]
    server.sql("create table if not exists drained(i int)")
    holder = Wire(server.port)
    proxy = lab.proxy(server.url, "--drain-timeout", "60s", "--without-term", "allow")
    holder.ask("begin")
    holder.ask("lock table drained")
    dead = Wire(proxy.port, **claim)
    for sql in before:
        dead.ask(sql)
    dead.socket.settimeout(0.5)
    try:
        dead.send(sent)
    except TimeoutError:
        pass
    waits = "select count(*) from pg_locks where not granted"
    check(f"drain: {name} waits at the server", eventually(lambda: server.sql(waits) != ["0"]))
    dead.close()
    proxy.process.send_signal(signal.SIGTERM)
    took = ended_within(proxy.process, 40)
    check(f"drain: a dead client with {name} waiting does not hold it up", took is not None, f"{took} s; {proxy.log()}")
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
    """Those that have not greeted yet, one of which never does, and those that the proxy has not yet accepted."""
    proxy = lab.proxy(server.url, "--drain-timeout", "60s", "--greeting-timeout", "60s")
    slow_to_greet, mute = Wire(proxy.port, login=False), Wire(proxy.port, login=False)
    eventually(lambda: proxy.metric("termgate_connections_greeting") == 2)
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
    check("drain: nor does it wait for who is there, or says nothing", took is not None, took)
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


def test_a_second_signal_ends_a_drain_at_once(lab, server):
    proxy = lab.proxy(server.url)
    stuck = Wire(proxy.port)
    stuck.ask("begin")
    proxy.process.send_signal(signal.SIGTERM)
    proxy.logged(" draining")
    proxy.process.send_signal(signal.SIGTERM)
    check("drain: a second signal ends it at once", ended_within(proxy.process, 5) is not None and proxy.process.returncode == 0)


def test_a_reload_takes_all_or_nothing(lab, server):
    rules, config = f"{lab.folder}/rules", f"{lab.folder}/reload.conf"
    ca = lab.certificate("reload-ca")
    key, certificate = lab.certificate("reload", "DNS:localhost", ca)
    with open(lab.certificate("reload-other", "DNS:localhost", ca)[0]) as file:
        other_key = file.read()
    write(rules, "[rule old]\nrefuse = the old rules\n")
    write(config, "max-connections = 7\n")
    proxy = lab.proxy(server.url, "--rules", rules, "--config", config, "--client-tls-cert", certificate, "--client-tls-key", key)

    def in_force():
        return (refusal(lambda: Wire(proxy.port).close()) or {"M": "none"})["M"], proxy.metric("termgate_connections_limit")

    check("reload: the first rules are in force", in_force() == ("the old rules", 7), in_force())
    # The command line wins over the file.
    good = {rules: "[rule new]\nrefuse = the new rules\n", config: "max-connections = 5\nclient-tls-cert = /nowhere/cert.pem\n"}
    for name, path, text, words in (
        ("broken rules", rules, "[rule broken\nrefuse = never\n", "rules:1"),
        ("missing rules", rules, None, rules),
        ("an unknown option", config, "max-conections = 50\n", "max-conections"),
        ("a missing certificate", certificate, None, certificate),
        ("a broken certificate", certificate, "nothing", certificate),
        ("a key of another certificate", key, other_key, key),
    ):
        for one, content in good.items():
            write(one, content)
        with open(path) as file:
            kept = file.read()
        os.remove(path)
        if text is not None:
            write(path, text)
        said = proxy.reload()
        check(f"reload: {name} fails and is named", "reload_failed" in said and words in said, said)
        check(f"reload: {name} leaves rules and limits as they were", in_force() == ("the old rules", 7), in_force())
        write(path, kept)
    said = proxy.reload()
    check("reload: then all is taken", " reloaded" in said and in_force() == ("the new rules", 5), (said, in_force()))
    write(rules, "[rule open]\nuser = postgres\n")
    check("reload: and again", " reloaded" in proxy.reload() and in_force() == ("none", 5), in_force())
    check("reload: ends cleanly", proxy.stop() == 0)


def listens(pid, port):
    """Whether the process has a socket that listens on that port."""
    with open(f"/proc/{pid}/net/tcp") as file:
        rows = [line.split() for line in list(file)[1:]]
    sockets = {f"socket:[{row[9]}]" for row in rows if row[3] == "0A" and int(row[1].split(":")[1], 16) == port}
    return any(os.readlink(f"/proc/{pid}/fd/{name}") in sockets for name in os.listdir(f"/proc/{pid}/fd"))


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


def test_systemd_hears_every_state(lab, server, refused_start):
    rules = f"{lab.folder}/notify.rules"
    for kind, address in (("path", f"{lab.folder}/notify"), ("abstract", f"@termgate-test-{os.getpid()}")):
        manager = ServiceManager(address)
        write(rules, "")
        proxy = lab.proxy(server.url, "--rules", rules, env=manager.environment())
        said = manager.hears()
        check(f"systemd: READY=1 to a socket with {kind} name", said == "READY=1", said)
        check("systemd: ready means that it takes clients", Wire(proxy.port).ask("select 1")[0] == ["1"])
        for text, outcome in (("", " reloaded"), ("[rule\n", "reload_failed")):
            write(rules, text)
            before = time.monotonic_ns() // 1000
            proxy.process.send_signal(signal.SIGHUP)
            said = manager.hears()
            moment = re.fullmatch(r"RELOADING=1\nMONOTONIC_USEC=(\d+)", said)
            check("systemd: RELOADING=1 with its moment", moment and before <= int(moment.group(1)) <= time.monotonic_ns() // 1000, said)
            check(f"systemd: READY=1 after it,{outcome}", manager.hears() == "READY=1" and proxy.logged(outcome), proxy.log())
        proxy.process.send_signal(signal.SIGTERM)
        said = manager.hears()
        check("systemd: STOPPING=1", said == "STOPPING=1", said)
        check("systemd: ends with 0", ended_within(proxy.process, 5) is not None and proxy.process.returncode == 0)
        said = refused_start(server.url, "--client-tls-cert", "/nowhere.pem", env=manager.environment())
        check("systemd: what cannot start is not ready", manager.silent() and "cannot_start" in said and "/nowhere.pem" in said, said)


def test_without_a_manager_it_runs_all_the_same(lab, server):
    for address in (f"{lab.folder}/nobody", "x" * 300, "/" + "x" * 300, ""):
        proxy = lab.proxy(server.url, env={**os.environ, "NOTIFY_SOCKET": address})
        check(f"systemd: runs with NOTIFY_SOCKET={address[:40]}", Wire(proxy.port).ask("select 1")[0] == ["1"] and proxy.stop() == 0)


def test_sockets_handed_over_by_systemd(lab, server, refused_start):
    def listener(family=socket.AF_INET, where=("127.0.0.1", 0), kind=socket.SOCK_STREAM):
        one = socket.socket(family, kind)
        one.bind(where)
        if kind == socket.SOCK_STREAM:
            one.listen(100)
        return one

    path, rules = f"{lab.folder}/.s.PGSQL.7000", f"{lab.folder}/activation.rules"
    sockets = [listener(), listener(), listener(socket.AF_UNIX, path)]
    front, inside = (one.getsockname()[1] for one in sockets[:2])

    def write_rules(word):
        write(rules, "".join(f"[rule {name}]\nlistener = {name}\nrefuse = {word} {name}\n" for name in ("inside", "socket")))

    write_rules("by")
    proxy = lab.proxy(server.url, "--rules", rules, **ServiceManager.hands_over(sockets, "front:inside:socket"))
    for place in (f"127.0.0.1:{front}\n", f"127.0.0.1:{inside}\n", f"unix:{path}\n"):
        check(f"sockets: {place.strip()} is listened on", proxy.logged(f"address={re.escape(place)}"), proxy.log())
    check("sockets: the first serves", Wire(front).ask("select 1")[0] == ["1"] and proxy.logged(r"connection_opened .*listener=front "))
    told = [refusal(lambda: Wire(inside)), refusal(lambda: Wire(0, path=path))]
    check("sockets: rules know them by name", [one and one["M"] for one in told] == ["by inside", "by socket"], told)
    write_rules("again by")
    said = proxy.reload()
    told = refusal(lambda: Wire(inside))
    check("sockets: a reload works without --listen", " reloaded" in said and told and told["M"] == "again by inside", said)

    # A restart: what comes meanwhile waits in the manager's sockets.
    kept = Wire(front)
    kept.ask("begin")
    proxy.process.send_signal(signal.SIGTERM)
    proxy.logged(" draining")
    eventually(lambda: not listens(proxy.process.pid, front))  # it is logged before the listeners are closed
    late = Wire(front, login=False)
    check("sockets: an open transaction is ended by its client", kept.ask("select 3")[0] == ["3"])
    kept.send(query("commit"))
    check("sockets: the first proxy ends", ended_within(proxy.process, 5) is not None)
    check("sockets: the Unix socket's file stays for the next", os.path.exists(path))
    second = lab.proxy(server.url, **ServiceManager.hands_over(sockets, "front:inside:socket"))
    late.send(startup())
    check(
        "sockets: who came between two proxies is served by the second",
        refusal(lambda: late.until("Z")) is None and late.ask("select 6")[0] == ["6"],
    )
    check("sockets: and over the Unix socket", Wire(0, path=path).ask("select 7")[0] == ["7"])
    second.stop()

    both = lab.proxy(server.url, "--listen", "127.0.0.1:0", **ServiceManager.hands_over(sockets[:1]))
    served = len(both.ports) == 2 and all(Wire(port).ask("select 1")[0] == ["1"] for port in both.ports)
    check("sockets: beside --listen, and without names it is listen_fd", served and both.logged("listener=listen_fd "), both.log())
    both.stop()

    said = refused_start(server.url, **ServiceManager.hands_over(sockets[:1], pid="1"))
    check("sockets: those for another process are not ours", "no listener: give --listen" in said, said)
    datagrams = listener(kind=socket.SOCK_DGRAM)
    said = refused_start(server.url, **ServiceManager.hands_over([datagrams], "odd"))
    check("sockets: one for datagrams is refused", "odd" in said and "not a stream socket" in said, said)
    for one in (*sockets, datagrams):
        one.close()


def test_the_units_of_the_package_start_the_proxy(lab, server):
    """The units that docs/use/proxy.md speaks of are what systemd takes, and the sample of their options is what the proxy takes."""
    packaging, folder = ROOT / "packaging", f"{lab.folder}/units"
    os.mkdir(folder)
    units = [f"{folder}/termgate-proxy.{kind}" for kind in ("service", "socket")]
    for unit in units:
        # The command, its user and its manual are installed with the package, and are not here.
        text = (packaging / "systemd" / os.path.basename(unit)).read_text().replace("/usr/bin/termgate", lab.termgate)
        write(unit, text.replace("User=termgate\nGroup=termgate\n", "").replace("Documentation=man:termgate-proxy(1)\n", ""))
    if shutil.which("systemd-analyze"):
        done = captured(["systemd-analyze", "verify", *units], env={**os.environ, "SYSTEMD_UNIT_PATH": f"{folder}:"})
        ours = [line for line in (done.stdout + done.stderr).splitlines() if "termgate" in line]
        check("units: systemd-analyze verify has nothing to say of them", not ours, ours)
    else:
        note("no systemd-analyze here: the units are not verified")
    config = (packaging / "debian" / "proxy.conf").read_text().replace("#rules =", "rules =").replace("/etc/termgate/", f"{folder}/")
    write(f"{folder}/proxy.conf", config.replace("http = 127.0.0.1:9090", "http = 127.0.0.1:0"))
    write(f"{folder}/backend", server.url + "\n")
    write(f"{folder}/rules", "")
    front = socket.socket()
    front.bind(("127.0.0.1", 0))
    front.listen(10)
    handed, manager = ServiceManager.hands_over([front], "front"), ServiceManager(f"{folder}/notify")
    words = [*handed["before"], lab.termgate, "proxy", "--config", f"{folder}/proxy.conf"]
    with open(f"{folder}/log", "w") as log:
        process = lab.program(*words, pass_fds=handed["pass_fds"], env=manager.environment(), stdout=log, stderr=log)
    check(
        "units: the proxy starts with the sample's options and the socket",
        manager.hears() == "READY=1" and Wire(front.getsockname()[1]).ask("select 1")[0] == ["1"],
        open(f"{folder}/log").read(),
    )
    process.terminate()
    check("units: stops", ended_within(process, 5) is not None and process.returncode == 0)
    front.close()


def test_leader_says_who_leads_while_the_database_is_away_and_in_a_drain(lab, server):
    server.sql("create table if not exists led(i int); create role leads login")
    lab.run(lab.termgate, "init", "--db", server.url, "--grant", "leads=lead")
    rules = f"{lab.folder}/leader.rules"
    write(rules, "[rule app]\napplication = leading*\nlease = leader-test \u00e9\nttl = 2 s\nholder = %application_name\n")
    proxy, other = lab.proxy(server.url.replace("postgres@", "leads@"), "--rules", rules), lab.proxy(server.url, "--rules", rules)

    def says(one=proxy, scope="leader-test%20%C3%A9"):
        return one.get(f"/leader?scope={scope}")

    check("leader: nobody leads at first", says() == (503, "not leader\n"), says())
    client = Wire(proxy.port, application_name="leading-1")
    wrote = client.ask("insert into led values (1)")[1]
    check("leader: 200 while the lease is held", wrote is None and says() == (200, "leader\n"), (wrote, says()))
    check("leader: a + is a space", says(scope="leader-test+%c3%a9")[0] == 200)
    check("leader: another instance does not lead", says(other)[0] == 503)
    check("leader: leases held are counted", proxy.metric("termgate_leases_held") == 1 and other.metric("termgate_leases_held") == 0)

    began = time.monotonic()
    server.sql("alter role leads nologin")
    server.sql(f"select pg_terminate_backend(pid) from pg_stat_activity where usename = 'leads' or pid = {client.pid}")
    gone = eventually(lambda: says()[0] == 503, 8, 0.05)
    check("leader: once its database is away it says so by the lease's end", gone, f"{time.monotonic() - began:.1f} s")
    check(
        "leader: not ready either, but alive",
        eventually(lambda: proxy.get("/readyz")[0] == 503, 3, 0.1) and proxy.get("/healthz")[0] == 200,
    )
    successor = Wire(other.port, application_name="leading-2")
    check(
        "leader: another instance's application takes over",
        eventually(lambda: successor.ask("insert into led values (2)")[1] is None, 10, 0.1) and says(other)[0] == 200,
    )
    server.sql("alter role leads login")
    check(
        "leader: the first is ready again, and does not lead",
        eventually(lambda: proxy.get("/readyz")[0] == 200, 5, 0.1) and says()[0] == 503,
    )
    successor.close()
    check("leader: given back when the last session is gone", eventually(lambda: says(other)[0] == 503, 5, 0.05))
    client = Wire(other.port, application_name="leading-3")
    client.ask("begin")
    check("leader: the next session leads", eventually(lambda: says(other)[0] == 200, 5))
    other.process.send_signal(signal.SIGTERM)
    other.logged(" draining")
    answers = [says(other)[0], other.get("/readyz")[0], other.get("/healthz")[0]]
    check("leader: nobody does when it drains", answers == [503, 503, 200], answers)
    proxy.stop()
    other.stop()


def test_readyz_follows_a_server_that_dies_and_comes_back(lab, server):
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


def test_the_metrics_count_what_was_done(lab, server):
    server.sql("create table if not exists measured(i int)")
    proxy = lab.proxy(server.url, "--threads", "3")
    clients = [Wire(proxy.port, **declared(f"measured-{i}", 5)) for i in range(4)]
    for one in clients:
        one.ask("insert into measured values (1)")
    clients[0].ask("begin")
    for name in ("connections", "fenced_transactions_total", "check_seconds_count"):
        check(f"metrics: {name}", f"\ntermgate_{name} 4\n" in proxy.get("/metrics")[1], proxy.get("/metrics")[1])
    check("metrics: bytes", proxy.metric("termgate_client_bytes_total") > 200)
    open_ones = eventually(lambda: proxy.metric("termgate_sessions_in_transaction") == 1, 3, 0.1)
    check("metrics: open transactions within two seconds", open_ones)
    for one in clients:
        one.close()
    gone = eventually(lambda: proxy.metric("termgate_connections") == 0) and proxy.metric("termgate_connections_peak") == 4
    check("metrics: nothing is left of who has gone", gone)
    proxy.stop()


def test_a_port_is_taken_over_under_clients_that_keep_coming(lab, server):
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
    for _ in range(3):
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
