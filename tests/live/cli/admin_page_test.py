#!/usr/bin/env python3
"""The page of `termgate admin` in a headless Chromium: a token is typed, a scope is opened and released by force with
the keyboard alone, and what the page then shows.

  pytest tests/live/cli/admin_page_test.py [--screenshots FOLDER]

TERMGATE_CHROMIUM names the browser; without one it is skipped.

Spoken to by pipe (--remote-debugging-pipe), so that nothing listens.
"""
import base64
import json
import os
import re
import select
import shutil
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

import pytest

import given
from both_databases import CLEAN, command
from given import TERMGATE

CHROMIUM = os.environ.get("TERMGATE_CHROMIUM") or shutil.which("chromium")
if not CHROMIUM:
    pytest.skip("no chromium", allow_module_level=True)
KEEP = Path(given.option("screenshots")) if given.option("screenshots") else None
TOKEN = "o" * 40


class Browser:
    """A headless Chromium, one page of it at a time."""

    def __init__(self, folder):
        to_read, to_write = os.pipe()
        from_read, from_write = os.pipe()

        def descriptors():
            os.dup2(to_read, 3)
            os.dup2(from_write, 4)

        os.set_inheritable(to_read, True)
        os.set_inheritable(from_write, True)
        # Both ends may have the numbers that the browser expects: moved out of the way first.
        to_read, from_write = [self.above(end) for end in (to_read, from_write)]
        self.process = subprocess.Popen(
            [
                CHROMIUM,
                *"--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --disable-background-networking"
                " --disable-component-update --disable-sync".split(),
                f"--user-data-dir={folder}",
                "--remote-debugging-pipe",
                "about:blank",
            ],
            preexec_fn=descriptors,
            close_fds=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=dict(CLEAN, HOME=folder),
        )
        os.close(to_read)
        os.close(from_write)
        self.write, self.read, self.buffer, self.number, self.session, self.events = to_write, from_read, b"", 0, None, []

    def new_page(self):
        self.session, self.events = None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(domain + ".enable")

    @staticmethod
    def above(end):
        import fcntl

        moved = fcntl.fcntl(end, fcntl.F_DUPFD, 10)
        os.close(end)
        return moved

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters, **({"sessionId": self.session} if self.session else {})}
        os.write(self.write, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + 30
        while True:
            while b"\0" in self.buffer:
                text, self.buffer = self.buffer.split(b"\0", 1)
                answer = json.loads(text)
                if answer.get("id") == self.number:
                    if "error" in answer:
                        raise RuntimeError(f"{method}: {answer['error']}")
                    return answer["result"]
                self.events.append(answer)
            if not select.select([self.read], [], [], max(0, end - time.monotonic()))[0]:
                raise RuntimeError(f"{method}: no answer")
            part = os.read(self.read, 1 << 20)
            if not part:
                raise RuntimeError("Chromium has ended")
            self.buffer += part

    def run(self, script):
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def wait(self, script, seconds=15):
        end = time.monotonic() + seconds
        while not self.run(script):
            if time.monotonic() > end:
                raise AssertionError(f"{script}: it did not come true; the page: {self.run('document.body.innerText')[:2000]}")
            time.sleep(0.05)

    def key(self, key, text=""):
        code = {"Tab": 9, "Enter": 13, "Escape": 27}.get(key, 0)
        self.call(
            "Input.dispatchKeyEvent",
            type="keyDown",
            key=key,
            code=key,
            windowsVirtualKeyCode=code,
            text=text or ("\r" if key == "Enter" else ""),
        )
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=code)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def screenshot(self, name):
        if KEEP is None:
            return
        picture = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        (KEEP / f"{name}.png").write_bytes(base64.b64decode(picture["data"]))

    def close(self):
        self.process.terminate()
        self.process.wait(20)
        os.close(self.write)
        os.close(self.read)


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        profile = tempfile.TemporaryDirectory(prefix="termgate-chromium.", ignore_cleanup_errors=True)
        cls.addClassCleanup(profile.cleanup)
        cls.browser = Browser(profile.name)
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="termgate-page.")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.url = f"sqlite:{self.folder}/page.db"
        self.command("init")
        for name, owner in (
            ("billing", "host-a:1:x"),
            ("billing", "host-b:7:y"),
            ("exports", "host-c:3:z"),
            ("<img src=x onerror=alert(1)>", "</td><script>alert(2)</script>"),
        ):
            if name == "billing" and owner.startswith("host-b"):
                self.command("lease", "force-release", "--scope", "billing", "--reason", "host-a hangs")
            self.command("lease", "acquire", "--scope", name, "--owner", owner, "--ttl", "1h", "--endpoint", "https://a.example/")
        self.command("append", "--stream", "billing", "--term", "1", "--payload", "late")  # refused, and told of
        self.command("append", "--stream", "billing", "--term", "3", "--payload", "x")
        run = self.command("job", "start", "--job", "export", "--scope", "exports", "--term", "1", "--owner", "host-c:3:z").stdout.strip()
        self.command("job", "beat", "--run", run, "--checkpoint", "page 17")
        self.command("follow", "--name", "projection", "--stream", "billing", "--once")
        tokens = self.folder / "tokens"
        tokens.write_text(f"ann operate {TOKEN}\n")
        tokens.chmod(0o600)
        self.admin = subprocess.Popen(
            [TERMGATE, "admin", "--tokens", str(tokens), "--http", "127.0.0.1:0", "--poll", "100ms"],
            env=dict(CLEAN, TERMGATE_DB=self.url),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.addCleanup(lambda: (self.admin.terminate(), self.admin.wait(20), self.admin.stdout.close()))
        self.address = self.admin.stdout.readline().split()[-1]
        self.browser.new_page()

    def tearDown(self):
        assert [
            event
            for event in self.browser.events
            if event.get("method") in ("Runtime.exceptionThrown", "Page.javascriptDialogOpening")
            or (event.get("method") == "Log.entryAdded" and "Content Security" in event["params"]["entry"]["text"])
        ] == []

    def text(self, part):
        return self.browser.run(f"document.getElementById('{part}').innerText")

    def shows(self, part, what):
        self.browser.wait(f"document.getElementById('{part}').textContent.includes('{what}')")

    def press(self, part, button):
        self.browser.run(f"[...document.querySelectorAll('#{part} button')].find(one => one.textContent === '{button}').click()")

    def dialog(self, *texts, picture):
        """Fills the open dialog in, field by field, and sends it."""
        for at, text in enumerate(texts):
            if at:
                self.browser.key("Tab")
            if text:
                self.browser.type(text)
        self.browser.screenshot(picture)
        self.browser.key("Enter")
        self.browser.wait("!document.getElementById('ask').open")

    def command(self, *words):
        return command(self.url, *words)

    def enter(self):
        browser = self.browser
        browser.call("Page.navigate", url=self.address)
        browser.wait("document.readyState === 'complete' && !!document.getElementById('token')")
        browser.run("document.getElementById('token').focus()")
        browser.type(TOKEN)
        browser.key("Enter")
        browser.wait("!document.getElementById('all').hidden")

    def test_look_release_by_force_and_what_it_then_shows(self):
        browser = self.browser
        self.enter()
        assert TOKEN not in browser.run("location.href")
        text = self.text("leases")
        for word in ("billing", "host-b:7:y", "held", "exports"):
            assert word in text
        # What a scope or an owner is called is text.
        assert "<img src=x onerror=alert(1)>" in text
        assert browser.run("document.querySelectorAll('img, #leases script').length") == 0
        for part, word in (("jobs", "page 17"), ("followers", "projection"), ("refusals", "refused")):
            assert word in self.text(part)
        # By keyboard: to the scope's button, into the section, to the dialog, and through it.
        browser.run("[...document.querySelectorAll('#leases button')].find(one => one.textContent === 'billing').focus()")
        browser.key("Enter")
        browser.wait("document.activeElement.id === 'scope' && document.querySelectorAll('#terms circle').length >= 3")
        assert re.search("Terms of billing: .* from 1 to 3", browser.run("document.querySelector('#terms svg').getAttribute('aria-label')"))
        browser.screenshot("scope")
        browser.key("Tab")
        assert browser.run("document.activeElement.id") == "force"
        browser.key("Enter")
        browser.wait("document.getElementById('ask').open && document.activeElement.id === 'ask-reason'")
        browser.type("host-b burns")
        browser.key("Tab")
        browser.type("bill")
        browser.key("Enter")
        browser.wait("document.getElementById('ask-problem').textContent !== ''")  # confirmed another name
        assert "held" in self.text("leases")
        browser.screenshot("dialog")
        browser.type("ing")
        browser.key("Enter")
        browser.wait("!document.getElementById('ask').open")
        browser.wait(
            "[...document.querySelectorAll('#leases tbody tr')].some(row => row.innerText.includes('billing') &&"
            " row.innerText.includes('released'))"
        )
        self.shows("timeline", "host-b burns")
        assert "admin ann" in self.text("timeline")
        assert self.text("said") == "billing was released"
        browser.screenshot("released")
        # Somebody else's takeover arrives by itself.
        self.command("lease", "acquire", "--scope", "billing", "--owner", "host-d:9:w", "--ttl", "1h")
        self.shows("leases", "host-d:9:w")

    def test_a_hand_over(self):
        browser = self.browser
        self.enter()
        self.press("leases", "exports")
        self.shows("facts", "host-c:3:z")
        browser.run("document.getElementById('hand-over').click()")
        browser.wait("document.getElementById('ask').open && document.activeElement.id === 'ask-to'")
        assert browser.run("['ask-term-row', 'ask-to-row'].map(id => document.getElementById(id).hidden)") == [True, False]
        self.dialog("host-d:*", "", "a deploy", "exports", picture="hand-over dialog")
        for part in ("facts", "leases"):
            self.shows(part, "asked to leave for host-d:*")
        assert self.text("said") == "exports is asked for"
        browser.screenshot("hand-over")
        self.command("lease", "release", "--scope", "exports", "--owner", "host-c:3:z", "--term", "1")
        self.shows("facts", "kept for host-d:*")
        self.command("lease", "acquire", "--scope", "exports", "--owner", "host-d:1:a", "--ttl", "1h")
        self.shows("timeline", "gap_ms")
        browser.wait("!document.getElementById('leases').innerText.includes('host-d:*')")

    def test_a_run_is_cancelled(self):
        browser = self.browser
        self.command("lease", "acquire", "--scope", "cancelled", "--owner", "me", "--ttl", "1h")
        self.command("job", "start", "--job", "reindex", "--scope", "cancelled", "--owner", "me", "--term", "1")
        self.enter()
        row = "[...document.querySelectorAll('#jobs tr')].find(one => one.innerText.includes('reindex'))"
        browser.wait(f"!!{row}")
        browser.run(f"[...{row}.querySelectorAll('button')].find(one => one.textContent === 'Cancel …').click()")
        browser.wait("document.getElementById('ask').open && document.activeElement.id === 'ask-reason'")
        assert self.text("ask-confirm-what") == "Write the job’s name to confirm"
        self.dialog("the wrong day", "reindex", picture="cancel dialog")
        browser.wait(f"{row}.innerText.includes('cancelled')")
        browser.screenshot("cancelled")

    def test_a_run_is_requested(self):
        browser = self.browser
        self.command("lease", "acquire", "--scope", "reports", "--owner", "me", "--ttl", "1h")
        run = self.command("job", "start", "--job", "figures", "--scope", "reports", "--owner", "me", "--term", "1").stdout.strip()
        self.command("job", "finish", "--run", run, "--exit-code", "0")
        self.enter()
        # Since when the lease is held, and for how long.
        lease = "[...document.querySelectorAll('#leases tr')].find(one => one.innerText.includes('reports'))"
        browser.wait(f"{lease} && / ago/.test({lease}.querySelector('td[data-label=Since]').innerText)")
        row = "[...document.querySelectorAll('#jobs tr')].find(one => one.innerText.includes('figures'))"
        press = f"[...{row}.querySelectorAll('button')].find(one => one.textContent.endsWith('…')).click()"
        browser.wait(f"{row} && {row}.innerText.includes('Run …')")
        browser.run(press)
        browser.wait("document.getElementById('ask').open && document.activeElement.id === 'ask-reason'")
        browser.run("document.getElementById('ask-kind').value = 'dry-run'")
        self.dialog("does it still work", "figures", picture="request dialog")
        browser.wait(f"{row}.innerText.includes('requested')")
        assert "dry-run" in browser.run(f"{row}.innerText")
        # Withdrawn by the same way.
        browser.run(press)
        browser.wait("document.getElementById('ask').open")
        assert "is withdrawn" in self.text("ask-what")
        assert browser.run("document.getElementById('ask-kind-row').hidden")
        self.dialog("it does", "figures", picture="withdraw dialog")
        browser.wait(f"{row}.innerText.includes('cancelled')")
        assert "Run …" in browser.run(f"{row}.innerText")

    def test_on_a_phone_in_the_dark(self):
        browser = self.browser
        browser.call("Emulation.setDeviceMetricsOverride", width=390, height=844, deviceScaleFactor=2, mobile=True)
        browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
        self.enter()
        self.press("leases", "billing")
        browser.wait("document.querySelectorAll('#terms circle').length >= 3")
        assert browser.run("document.documentElement.scrollWidth") <= 390
        assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 28)"
        # Every field and button has a name that a screen reader can say; every picture says what it shows.
        for nameless in (
            "'input')].filter(one => !one.labels.length)",
            "'button')].filter(one => !one.textContent.trim() && one.id !== 'ask-do')",
            "'svg')].filter(one => one.getAttribute('role') !== 'img' || !one.getAttribute('aria-label'))",
        ):
            assert browser.run(f"[...document.querySelectorAll({nameless}.length") == 0, nameless
        # WCAG AA: text against its ground, 4.5 to 1.
        assert browser.run(CONTRAST) >= 4.5
        browser.screenshot("phone")

    def test_more_scopes_than_a_page_has(self):
        browser = self.browser
        # By the extension, in one transaction: 130 commands would take long.
        script = (
            "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); c.enable_load_extension(True);"
            " c.load_extension(sys.argv[2]); c.execute('BEGIN IMMEDIATE');"
            " [c.execute('SELECT termgate_seal(?, 7)', (name,)) for name in [f'orders/{n:03}' for n in range(130)] + [' ', 'zz-last']];"
            " c.execute('COMMIT')"
        )
        subprocess.run([given.PYTHON, "-c", script, str(self.folder / "page.db"), given.EXTENSION], check=True, timeout=60)
        self.enter()
        assert "135 scopes: 3 held" in self.text("counts")
        assert self.text("shown") == "1 to 100 of 135"
        assert browser.run("[...document.querySelectorAll('#leases button')].some(one => one.textContent === '\u2423')")
        browser.run("document.getElementById('next').click()")
        browser.wait("document.getElementById('shown').textContent === '101 to 135 of 135'")
        assert browser.run("document.getElementById('next').disabled && document.getElementById('leases').innerText.includes('zz-last')")
        browser.run("document.getElementById('search').focus()")
        browser.type("ZZ-")
        browser.wait("document.querySelectorAll('#leases tbody tr').length === 1")
        # What is pressed, selected or focused stays: the same node, whatever happens to other scopes meanwhile.
        browser.run(
            "window.kept = document.querySelector('#leases button'); window.kept.focus(); window.note = document.querySelector('#audit li')"
        )
        browser.run("getSelection().selectAllChildren(window.kept)")
        self.command("lease", "acquire", "--scope", "exports-2", "--owner", "host-e:1:v", "--ttl", "1h")
        browser.wait("document.getElementById('audit').innerText.includes('host-e:1:v')")
        assert browser.run("window.kept.isConnected && document.activeElement === window.kept && window.note.isConnected")
        assert browser.run("getSelection().toString()") == "zz-last"
        assert browser.run("document.getElementById('search').value") == "ZZ-"
        # An address for each scope and for what is shown; never with the token.
        browser.run("window.kept.click()")
        browser.wait("location.hash === '#scope=zz-last&search=ZZ-'")
        browser.run("location.hash = 'scope=orders%2F099&state=held'")
        browser.wait("document.getElementById('h-scope').textContent === 'Scope orders/099'")
        browser.call("Page.reload")
        time.sleep(1)  # until the old page is gone, which cannot be asked
        browser.wait("document.readyState === 'complete' && document.getElementById('h-scope').textContent === 'Scope orders/099'")
        browser.wait("document.querySelectorAll('#leases tbody tr').length === 4")
        assert TOKEN not in browser.run("location.href")
        assert "The fence is 7" in self.text("facts")
        assert re.search("^Live: sqlite at .*page.db$", self.text("connection"))
        browser.screenshot("many")

    def test_a_wrong_token(self):
        browser = self.browser
        browser.call("Page.navigate", url=self.address)
        browser.wait("document.readyState === 'complete' && !!document.getElementById('token')")
        browser.run("document.getElementById('token').focus()")
        browser.type("x" * 40)
        browser.key("Enter")
        browser.wait("document.getElementById('enter-problem').textContent !== ''")
        assert browser.run("document.getElementById('all').hidden")
        assert browser.run("sessionStorage.length") == 0
        assert browser.run(CONTRAST) >= 4.5


CONTRAST = """(() => {
  const light = text => { const parts = text.match(/[0-9.]+/g).map(Number).slice(0, 3).map(c => c / 255).map(c => c <= .03928 ? c / 12.92
    : ((c + .055) / 1.055) ** 2.4); return .2126 * parts[0] + .7152 * parts[1] + .0722 * parts[2]; };
  const ground = node => { for (; node; node = node.parentElement) { const color = getComputedStyle(node).backgroundColor;
    if (!/, 0\\)$|transparent/.test(color)) return color; } return 'rgb(255, 255, 255)'; };
  let least = 21;
  for (const node of document.querySelectorAll('main *, header *')) {
    if (!node.checkVisibility() || ![...node.childNodes].some(child => child.nodeType === 3 && child.textContent.trim())) continue;
    const a = light(getComputedStyle(node).fill !== 'rgb(0, 0, 0)' && node.tagName === 'text' ? getComputedStyle(node).fill :
      getComputedStyle(node).color), b = light(ground(node));
    least = Math.min(least, (Math.max(a, b) + .05) / (Math.min(a, b) + .05));
  }
  return least;
})()"""
