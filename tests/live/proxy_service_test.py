#!/usr/bin/env python3
"""The proxy as a service that somebody runs: drain, reload, descriptors that run out, systemd, HTTP, limits, certificates, Unix sockets, IPv6, two on one port.

Usage: proxy_service_test.py TERMGATE PG_SERVER_SH [PART ...]   (parts: the functions below that have a server as argument)
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
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "support"))
from proxy_lab import (SANITIZED, SYNC, Lab, Refused, Wire, bind, declared, eventually, execute, fields, message, parse, query, refusal, startup)

lab = Lab("service", sys.argv[1], sys.argv[2])
check = lab.check


def ended_within(process, seconds):
    """How long the process still ran, or None."""
    began = time.monotonic()
    try:
        process.wait(seconds)
        return time.monotonic() - began
    except subprocess.TimeoutExpired:
        return None


def drain(server):
    server.sql("create table if not exists drained(i int)")
    holder = Wire(server.port)
    for name, prelude, sent in (
            ("a statement", [], query("insert into drained values (2)")),
            ("a statement in a transaction", ["begin"], query("insert into drained values (2)")),
            ("a thousand statements", [], query("insert into drained values (2)") * 1000),
            ("a large statement half sent", [], query("insert into drained values (2)") + query("select '" + "x" * 3_000_000 + "'")[:2_000_000]),
            ("an extended statement", [], parse("", "insert into drained values (2)") + bind("", "") + execute() + SYNC)):
        for kind, parameters in (("declared", declared("drain", 7)), ("undeclared", {})):
            proxy = lab.proxy(server.url, "--drain-timeout", "10s", "--without-term", "allow")
            holder.ask("begin")
            holder.ask("lock table drained")
            dead = Wire(proxy.port, **parameters)
            for sql in prelude:
                dead.ask(sql)
            dead.socket.settimeout(0.5)
            try:
                dead.send(sent)
            except TimeoutError:
                pass
            time.sleep(0.3)
            dead.close()
            time.sleep(0.2)
            proxy.process.send_signal(signal.SIGTERM)
            took = ended_within(proxy.process, 20)
            check(f"drain: a dead client with {name} waiting, {kind}, does not hold it up", took is not None and took < 3, f"{took} s; {proxy.log()}")
            holder.ask("rollback")
    holder.close()

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
    check("drain: one that waits without end is told at the limit", told and told["C"] == "57P01" and "--drain-timeout" in told["M"] and 3.5 < passed < 6, (passed, told))
    check("drain: and the status is 0", ended_within(proxy.process, 5) is not None and proxy.process.returncode == 0)
    check("drain: the server has nobody left", eventually(lambda: server.sql("select count(*) from pg_stat_activity where backend_type = 'client backend'") == ["1"]))

    # A client that does not read its answers is in the way no longer than the limit and its last words' time.
    proxy = lab.proxy(server.url, "--drain-timeout", "1s")
    deaf = Wire(proxy.port, receive_buffer=4096)
    deaf.send(query("select repeat('x', 1000) from generate_series(1, 100000)"))
    time.sleep(0.5)
    proxy.process.send_signal(signal.SIGTERM)
    took = ended_within(proxy.process, 20)
    check("drain: a client that reads nothing is cut", took is not None and took < 8, took)


def reload(server):
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
    check("reload: then all is well", " reloaded" in proxy.reload() and refused_message() is None and proxy.metric("termgate_connections_limit") == 5)
    check("reload: ends cleanly", proxy.stop() == 0)


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as file:
        parts = file.read().rsplit(")", 1)[1].split()
    return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")


def descriptors(server):
    proxy = lab.proxy(server.url, "--greeting-timeout", "60s", before=("sh", "-c", 'ulimit -n 64; exec "$@"', "sh"))
    with open(f"/proc/{proxy.process.pid}/limits") as file:
        check("descriptors: there are 64", re.search(r"Max open files\s+64\s+64", file.read()))
    check("descriptors: the limits are lowered, and it is said", "limits_lowered" in proxy.log() and 4 <= proxy.metric("termgate_connections_limit") <= 64, proxy.log())
    first = Wire(proxy.port)
    # HTTP keeps its connections open: with them the descriptors run out for good, whatever the clients' limits are.
    web = [socket.create_connection(("127.0.0.1", proxy.http)) for _ in range(60)]
    flood = []
    for _ in range(200):
        one = socket.create_connection(("127.0.0.1", proxy.port), timeout=5)
        one.setblocking(False)
        flood.append(one)
    time.sleep(1)
    before, began = cpu_seconds(proxy.process.pid), time.monotonic()
    time.sleep(3)
    spent = (cpu_seconds(proxy.process.pid) - before) / (time.monotonic() - began)
    check("descriptors: no busy loop while the flood stands", spent < (0.5 if SANITIZED else 0.15), f"{spent:.2f} of a core")
    print(f"     {spent * 100:.1f} % of a core under the flood, {len(os.listdir(f'/proc/{proxy.process.pid}/fd'))} descriptors")
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
    check("descriptors: and HTTP", proxy.get("/readyz")[0] == 200 and proxy.metric('termgate_connections_refused_total{limit="descriptors"}') > 0)
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
        return {"before": (sys.executable, "-c", cls.STARTER, str(len(sockets)), names, pid, *(str(one.fileno()) for one in sockets)),
                "pass_fds": [one.fileno() for one in sockets], "listen": []}


def notify(server):
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
        check("systemd: a reload that fails is over too", said[0].startswith("RELOADING=1") and said[1] == "READY=1" and "reload_failed" in proxy.log(), said)
        proxy.process.send_signal(signal.SIGTERM)
        said = manager.hears()
        check("systemd: STOPPING=1", said == "STOPPING=1", said)
        check("systemd: ends with 0", ended_within(proxy.process, 5) is not None and proxy.process.returncode == 0)
        try:
            lab.proxy(server.url, "--client-tls-cert", "/nowhere.pem", env=manager.environment())
            check("systemd: what cannot start is not ready", False, "it started")
        except AssertionError as error:
            check("systemd: what cannot start is not ready", manager.silent() and "cannot_start" in str(error) and "/nowhere.pem" in str(error), error)
    # A manager that is not there, or a name that is none, is no reason not to run.
    for address in (f"{lab.folder}/nobody", "x" * 300, "/" + "x" * 300, ""):
        proxy = lab.proxy(server.url, env={**os.environ, "NOTIFY_SOCKET": address})
        check(f"systemd: runs with NOTIFY_SOCKET={address[:40]}", Wire(proxy.port).ask("select 1")[0] == ["1"] and proxy.stop() == 0)


def activation(server):
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
    log = proxy.log()
    check("sockets: all are listened on", [f"address=127.0.0.1:{port}\n" in log for port in ports] == [True, True] and f"address=unix:{path}\n" in log, log)
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
    waiting = socket.create_connection(("127.0.0.1", ports[0]), timeout=10)
    check("sockets: an open transaction is ended by its client", kept.ask("select 3")[0] == ["3"])
    kept.send(query("commit"))
    check("sockets: the first proxy ends", ended_within(proxy.process, 5) is not None)
    check("sockets: the Unix socket's file stays for the next", os.path.exists(path))
    second = lab.proxy(server.url, **ServiceManager.hands_over(sockets, "front:inside:socket"))
    late = Wire.__new__(Wire)
    late.socket, late.pid = waiting, None
    late.send(startup())
    check("sockets: who came between two proxies is served by the second", refusal(lambda: late.until("Z")) is None and late.ask("select 6")[0] == ["6"])
    check("sockets: and over the Unix socket", Wire(0, path=path).ask("select 7")[0] == ["7"])
    second.stop()

    unnamed = lab.proxy(server.url, **ServiceManager.hands_over(sockets[:1]))
    check("sockets: without names it is listen_fd", Wire(ports[0]).ask("select 1")[0] == ["1"] and unnamed.logged("listener=listen_fd "))
    unnamed.stop()
    both = lab.proxy(server.url, "--listen", "127.0.0.1:0", **ServiceManager.hands_over(sockets[:1], "front"))
    check("sockets: beside --listen", len(both.ports) == 2 and all(Wire(port).ask("select 1")[0] == ["1"] for port in both.ports), both.log())
    both.stop()

    def fails(**more):
        try:
            lab.proxy(server.url, **more).stop()
        except AssertionError as error:
            return str(error)
        return "it started"

    said = fails(**ServiceManager.hands_over(sockets[:1], pid="1"))
    check("sockets: those for another process are not ours", "where to listen?" in said, said)
    datagrams = listener(kind=socket.SOCK_DGRAM)
    said = fails(**ServiceManager.hands_over([datagrams], "odd"))
    check("sockets: one for datagrams is refused", '"odd" is no stream socket' in said or "odd" in said and "no stream socket" in said, said)
    for one in (*sockets, datagrams):
        one.close()


def units(server):
    """The units of docs/proxy.md are what systemd takes, and the options file beside them is what the proxy takes."""
    page = (Path(__file__).parent.parent.parent / "docs" / "proxy.md").read_text()
    blocks = dict(re.findall(r"```ini\n# /etc/(\S+)\n(.*?)```", page, re.S))
    names = ["systemd/system/termgate.socket", "systemd/system/termgate.service", "termgate/proxy.conf"]
    if not check("units: the page has them", all(name in blocks for name in names), list(blocks)):
        return
    folder = f"{lab.folder}/units"
    os.mkdir(folder)
    for name in names:
        text = blocks[name].replace("/usr/bin/termgate", lab.termgate)
        with open(f"{folder}/{name.rsplit('/', 1)[1]}", "w") as file:
            file.write(text)
    if shutil.which("systemd-analyze"):
        done = subprocess.run(["systemd-analyze", "verify", f"{folder}/termgate.service", f"{folder}/termgate.socket"], capture_output=True, text=True,
                              env={**os.environ, "SYSTEMD_UNIT_PATH": f"{folder}:"})
        ours = [line for line in (done.stdout + done.stderr).splitlines() if "termgate" in line]
        check("units: systemd-analyze verify has nothing to say of them", not ours, ours)
    else:
        print("     no systemd-analyze here: the units are not verified")
    config = blocks["termgate/proxy.conf"]
    with open(f"{folder}/backend", "w") as file:
        file.write(server.url + "\n")
    config = config.replace("/etc/termgate/backend", f"{folder}/backend").replace("http = 127.0.0.1:9090", "http = 127.0.0.1:0").replace("/etc/termgate/rules", f"{folder}/rules")
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
        process = lab.program(*handed["before"], lab.termgate, "proxy", "--config", f"{folder}/proxy.conf", pass_fds=handed["pass_fds"], env=manager.environment(), stdout=log, stderr=log)
    said = manager.hears()
    check("units: the proxy starts with the page's options and the socket", said == "READY=1" and Wire(front.getsockname()[1]).ask("select 1")[0] == ["1"], open(f"{folder}/log").read())
    process.send_signal(signal.SIGHUP)
    check("units: reloads", [manager.hears()[:11], manager.hears()] == ["RELOADING=1", "READY=1"] and " reloaded" in open(f"{folder}/log").read())
    process.terminate()
    check("units: stops", ended_within(process, 5) is not None and process.returncode == 0)
    front.close()


PARTS = [drain, reload, descriptors, notify, activation, units]


def main():
    wanted = [part for part in PARTS if part.__name__ in sys.argv[3:]] or PARTS
    server = lab.server("15", "max_connections=300")
    for part in wanted:
        part(server)


status = 1
try:
    main()
finally:
    status = lab.conclude()
sys.exit(status)
