#!/usr/bin/env python3
"""examples/http-guard over real sockets, on an SQLite file: what it refuses, that nothing refused is written, and once-a-term.

  http_guard_test.py HTTP_GUARD TERMGATE_COMMAND
"""
import http.client
import sys
import tempfile
import threading
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from served import served  # noqa: E402

GUARD = str(Path(sys.argv[1]).resolve())


def ask(port, method, path, body="", headers=()):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.putrequest(method, path)
        for name, value in headers:
            connection.putheader(name, value)
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body.encode())
        answer = connection.getresponse()
        return answer.status, answer.read().decode().strip()
    finally:
        connection.close()


def put(port, path, body, term, scope="billing"):
    return ask(port, "PUT", path, body, [("Termgate-Scope", scope), ("Termgate-Term", str(term))])


class HttpGuard(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.url = f"sqlite:{folder.name}/guard.db"

    def test_a_stale_leader_is_refused_and_writes_nothing(self):
        with served(GUARD, self.url, "PORT") as port:
            self.assertEqual(put(port, "/a", "first", 5)[0], 200)
            self.assertEqual(put(port, "/a", "second", 5)[0], 200, "a leader writes as often as it likes under its term")
            self.assertEqual(put(port, "/a", "next leader", 6)[0], 200)
            status, text = put(port, "/a", "late", 5)
            self.assertEqual((status, text.startswith("TG001")), (409, True), text)
            self.assertEqual(put(port, "/b", "late", 5)[0], 409, "the fence is the scope's, not the document's")
            self.assertEqual(ask(port, "GET", "/a"), (200, "next leader"))
            self.assertEqual(ask(port, "GET", "/b")[0], 404)
            self.assertEqual(put(port, "/b", "of another scope", 1, "reports")[0], 200)
        with served(GUARD, self.url, "PORT") as port:
            self.assertEqual(put(port, "/a", "late, after a restart", 5)[0], 409)

    def test_once_a_term_an_equal_term_is_refused(self):
        with served(GUARD, self.url, "PORT", "--once-a-term") as port:
            self.assertEqual(put(port, "/a", "one", 1)[0], 200)
            status, text = put(port, "/a", "two", 1)
            self.assertEqual((status, "writes once" in text), (409, True), text)
            self.assertEqual(ask(port, "GET", "/a"), (200, "one"))
            # Twenty clients with the same term: one of them wins.
            results, all_ready = [], threading.Barrier(20)

            def client(number):
                all_ready.wait()
                results.append(put(port, "/race", f"client {number}", 2)[0])

            threads = [threading.Thread(target=client, args=(number,)) for number in range(20)]
            for one in threads:
                one.start()
            for one in threads:
                one.join()
            self.assertEqual((results.count(200), results.count(409)), (1, 19), results)

    def test_bad_input_gets_a_clear_error_and_writes_nothing(self):
        with served(GUARD, self.url, "PORT") as port:
            self.assertEqual(ask(port, "PUT", "/a", "x")[0], 428)
            self.assertEqual(ask(port, "PUT", "/a", "x", [("Termgate-Scope", "billing")])[0], 428)
            self.assertEqual(ask(port, "PUT", "/a", "x", [("Termgate-Term", "5")])[0], 428)
            for term in ("x", "5x", "0x5", "-1", "5 6", "1e3", "0", "9" * 19, "9" * 200):
                self.assertEqual(put(port, "/a", "x", term)[0], 400, term)
            twice = [("Termgate-Scope", "billing"), ("Termgate-Term", "5"), ("Termgate-Term", "6")]
            self.assertEqual(ask(port, "PUT", "/a", "x", twice)[0], 400)
            self.assertEqual(put(port, "/a", "x", 5, "s" * 1000)[0], 400)
            self.assertEqual(ask(port, "DELETE", "/a")[0], 405)
            self.assertEqual(ask(port, "GET", "/a")[0], 404)
            self.assertEqual(put(port, "/a", "good", 5)[0], 200)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
