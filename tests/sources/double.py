"""What the doubles of HTTP services share: a server of one lock, whose state is a file that survives a kill, and which can be copied."""
import argparse
import json
import os
import threading
import urllib.parse
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Store:
    """A dictionary on disk, written before each answer."""

    def __init__(self, folder, empty):
        self.path = os.path.join(folder, "state.json")
        self.lock = threading.Lock()
        try:
            with open(self.path, encoding="utf-8") as file:
                self.data = json.load(file)
        except FileNotFoundError:
            self.data = empty

    def save(self):
        with open(self.path + ".new", "w", encoding="utf-8") as file:
            json.dump(self.data, file)
        os.replace(self.path + ".new", self.path)


def serve(answer, delete, empty):
    """answer(store, method, path, query, body) -> (status, JSON or text or None); delete(store, scope) is the operator's."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--data")
    parser.add_argument("--delete")
    options = parser.parse_args()
    if options.delete is not None:
        target = f"http://127.0.0.1:{options.port}/operator/delete?scope={urllib.parse.quote(options.delete, safe='')}"
        urllib.request.urlopen(urllib.request.Request(target, method="POST")).read()
        return
    store = Store(options.data, empty)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one(self):
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length)
            path, _, query = self.path.partition("?")
            with store.lock:
                if path == "/operator/delete":
                    status, result = 200, delete(store.data, urllib.parse.unquote(query.removeprefix("scope=")))
                else:
                    status, result = answer(store.data, self.command, path, query, body)
                store.save()
            text = b"" if result is None else result.encode() if isinstance(result, str) else json.dumps(result).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json" if not isinstance(result, str) else "text/plain")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_PUT = do_POST = do_DELETE = handle_one

        def log_message(self, *arguments):
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 64

    Handler.disable_nagle_algorithm = True
    Server(("127.0.0.1", options.port), Handler).serve_forever()
