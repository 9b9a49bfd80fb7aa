#!/usr/bin/env python3
"""The code in README.md and docs/use/ (operations, proxy, testkit, managed PostgreSQL, handles, run, Java and ORMs), cut out of the
pages and run by the roles that they name, directly and through the proxy. Other pages have tests of their own;
tests/live/README.md lists them.

  pytest tests/live/docs/docs_test.py [-k six_lines]

On the server of tests/support/plain_server.py. Names of roles, database, host and ports are replaced by this run's; nothing else is.
"""
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import pytest

from checks import captured, eventually
from given import PYTHON, ROOT, TERMGATE, free_port
from pages import ENVIRONMENT, PLACE, SERVER, block, psql, shell, text_of

NAME = f"docs_{os.getpid()}"
OWNER, APP, PROXY = NAME + "_owner", NAME + "_app", NAME + "_proxy"


def url(role, place=PLACE, database=NAME):
    return f"postgresql://{role}@{place}/{database}"


ADMIN = url(re.search(r"//(?:([^@:]+)[^@]*@)?", SERVER).group(1) or "postgres")


def renamed(text, place=PLACE):
    text = re.sub(r"@(host|db\.example)/app\b", f"@{place}/{NAME}", text)
    text = (
        text.replace("termgate_owner", OWNER)
        .replace("termgate_proxy", PROXY)
        .replace("DATABASE app ", f"DATABASE {NAME} ")
        .replace("--grant app=", f"--grant {APP}=")
    )
    return text


class Docs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        psql(SERVER, f"CREATE DATABASE {NAME};\nCREATE ROLE {APP} LOGIN;\nCREATE ROLE {PROXY} LOGIN;")
        cls.addClassCleanup(psql, SERVER, f"DROP DATABASE {NAME} WITH (FORCE);\nDROP ROLE {APP};\nDROP ROLE {PROXY};\nDROP ROLE {OWNER};")
        # The README's own steps, as an administrator.
        psql(ADMIN, renamed(block("README.md", "CREATE ROLE termgate_owner")))
        with tempfile.TemporaryDirectory(prefix="termgate-docs.") as folder:
            shell(f"{TERMGATE} init --print >{folder}/termgate-postgresql.sql")
            install = renamed(block("README.md", "psql ")).replace("-d app ", f"-d {ADMIN} ").replace("'app'", f"'{APP}'")
            done = subprocess.run(["bash", "-c", install], cwd=folder, capture_output=True, text=True, env=ENVIRONMENT)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        psql(ADMIN, f"CREATE SCHEMA {APP} AUTHORIZATION {APP};")
        lines = block("README.md", "CREATE TABLE accounts").splitlines()
        cls.six = lines[1:]
        play = ["psql", "-qXAt", url(APP)]
        cls.said = subprocess.run(play, input="\n".join(lines), capture_output=True, text=True, env=ENVIRONMENT).stderr

    def setUp(self):
        protect = "SELECT termgate.protect('accounts', scope => 'billing');"
        psql(url(APP), "SELECT termgate.unprotect('accounts');", "UPDATE accounts SET balance = 100;", protect)
        # Whatever came before: a term that nobody has yet.
        self.term = int(psql(ADMIN, "SELECT coalesce(max(term), 0) + 10 FROM termgate.fences WHERE scope = 'billing';"))

    def raises(self, by=0, scope="billing"):
        """The call under this test's term, or one so far above it."""
        return f"SELECT termgate.check_term('{scope}', {self.term + by});"

    def level(self, name):
        shell(f"{TERMGATE} init --db {url(OWNER)} --revoke {APP} --grant {APP}={name}")

    def balance(self):
        return psql(url(APP), "SELECT balance FROM accounts;")

    def proxy(self, command):
        port = int(re.search(r"--listen \S+:(\d+)", command).group(1))
        process = subprocess.Popen(["bash", "-c", "exec " + command], env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        select = ["psql", "-qXAt", url(APP, f"127.0.0.1:{port}"), "-c", "SELECT 1"]
        assert eventually(lambda: captured(select, env=ENVIRONMENT).returncode == 0, 20, 0.1), "the proxy does not come up"
        return port

    def plain_proxy(self):
        port = self.proxy(f"{TERMGATE} proxy --listen 127.0.0.1:{free_port()} --backend {url(OWNER)}")
        return f"127.0.0.1:{port}"

    # ---- README ---------------------------------------------------------------------------------

    def test_the_six_lines(self):
        # setUpClass has played them: only the sixth was refused, in the words that the page shows.
        assert len(self.six) == 6
        assert self.said.splitlines()[:2] == block("README.md", "ERROR:").splitlines()
        assert self.said.count("ERROR:") == 1, self.said
        psql(url(APP), "UPDATE accounts SET balance = 0;", fails="TG002")
        psql(url(APP), "UPDATE termgate.fences SET term = 1;", fails="42501")
        assert self.balance() == "100"

    def test_a_transaction_of_the_six_lines_through_the_proxy(self):
        place = self.plain_proxy()
        write = "\n".join(self.six[2:4])
        psql(url(APP), self.raises())
        psql(url(APP, place), write.replace("term = '5'", f"term = '{self.term}'"))
        assert self.balance() == "70"
        psql(url(APP), self.raises(1))
        psql(url(APP, place), write.replace("term = '5'", f"term = '{self.term}'"), fails="TG001")
        psql(url(APP, place), "UPDATE accounts SET balance = 0;", fails="TG002")
        assert self.balance() == "70"

    def test_the_lines_about_the_proxy(self):
        lines = block("docs/use/proxy.md", "# The proxy has a role of its own").replace("\\\n", "").splitlines()
        init, command, client = [line for line in lines if not line.startswith("#")]
        shell(renamed(init))
        port = self.proxy(renamed(command.replace("0.0.0.0:6432", f"127.0.0.1:{free_port()}")))
        psql(url(APP), self.raises())
        client = client.replace("termgate.term=5", f"termgate.term={self.term}").replace(
            "-h proxy.example -p 6432 app",
            f"-qX -v ON_ERROR_STOP=1 -U {APP} -h 127.0.0.1 -p {port} {NAME} -c 'UPDATE accounts SET balance = 7'",
        )
        shell(client)
        assert self.balance() == "7"

    def test_to_remove_it(self):
        # In a database of its own, which is the page's for as long.
        page = "docs/use/operations.md"
        uninstall = block(page, "termgate uninstall")
        other = NAME + "_other"
        psql(SERVER, f"CREATE DATABASE {other};\nGRANT CREATE ON DATABASE {other} TO {OWNER};")
        self.addCleanup(psql, SERVER, f"DROP DATABASE {other} WITH (FORCE);")
        shell(f"{TERMGATE} init --db {url(OWNER, database=other)} --grant {APP}=write")
        psql(url(ADMIN.split("//")[1].split("@")[0], database=other), f"CREATE SCHEMA {APP} AUTHORIZATION {APP};")
        protect = "SELECT termgate.protect('accounts', scope => 'billing');"
        psql(url(APP, database=other), "CREATE TABLE accounts (id int PRIMARY KEY, balance bigint);", protect)
        command = re.sub(rf"/{NAME}$", f"/{other}", renamed(uninstall))
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=ENVIRONMENT)
        assert done.returncode == 1, done.stderr
        unprotect = re.search(r"`(SELECT termgate\.unprotect\('accounts'\);)`", text_of(page)).group(1)
        psql(url(APP, database=other), unprotect)
        assert "uninstalled" in shell(command)

    def test_a_stale_append(self):
        with tempfile.TemporaryDirectory(prefix="termgate-docs.") as folder:
            code = block("docs/use/testkit.md", "export TERMGATE_DB=").replace("sqlite:test.db", f"sqlite:{folder}/test.db")
            lines = shell(code).splitlines()
        assert lines[1:4] == ["1\ttest-1", "2\ttest-2", "3"], lines

    # ---- docs/use/operations.md -------------------------------------------------------------------

    def test_operations(self):
        page = "docs/use/operations.md"
        assert block(page, "CREATE ROLE termgate_owner") == block("README.md", "CREATE ROLE termgate_owner")
        ops, backup = NAME + "_ops", NAME + "_backup"
        psql(SERVER, f"CREATE ROLE {ops} LOGIN;\nCREATE ROLE {backup} LOGIN;")
        self.addCleanup(psql, SERVER, f"DROP ROLE {ops};\nDROP ROLE {backup};")
        names = {"termgate ": TERMGATE + " ", "ops@": ops + "@", "ops=": ops + "=", "backup=": backup + "="}

        def own(text):
            text = renamed(text)
            for name, mine in names.items():
                text = text.replace(name, mine)
            return text

        grant, proxy, revoke = block(page, "termgate init --db postgresql://termgate_owner@host/app --grant app=write").splitlines()
        assert f"granted lead to {PROXY}" in shell(own(proxy))
        assert f"granted operate to {ops}" in shell(own(grant))
        self.addCleanup(shell, own(grant.split(" --grant")[0]) + f" --revoke {ops}")
        dump = block(page, "termgate init --db postgresql://termgate_owner@host/app --grant backup=dump")
        assert f"granted dump to {backup}" in shell(own(dump))
        self.addCleanup(shell, own(grant.split(" --grant")[0]) + f" --revoke {backup}")
        doctor, verify = (own(line) for line in block(page, "termgate doctor").splitlines())
        shell(f"{doctor} || test $? = 1")  # a test server's superusers and settings may be worth a warning
        shell(verify)
        reset = (
            re.search(r"`(termgate fence reset --scope billing --term 8 [^`]*)`", text_of(page))
            .group(1)
            .replace("--term 8", f"--term {self.term}")
        )
        psql(url(APP), self.raises(1))
        shell(own(reset) + f" --db {url(ops)}")
        assert psql(url(APP), "SELECT term FROM termgate.fence('billing');") == str(self.term)
        shell(own(revoke.replace("--revoke app", f"--revoke {APP}")))
        psql(url(APP), "SELECT termgate.check_term('billing', 1);", fails="42501")
        shell(own(grant))

    def test_a_protected_table_changed_by_hand(self):
        # The role of the page owns the table; a plain one with nothing but level read and UPDATE can do the first block too.
        page, reader = "docs/use/operations.md", NAME + "_reader"
        psql(SERVER, f"CREATE ROLE {reader} LOGIN;")
        self.addCleanup(psql, SERVER, f"DROP OWNED BY {reader};\nDROP ROLE {reader};")
        self.addCleanup(psql, ADMIN, f"DROP OWNED BY {reader};")
        shell(f"{TERMGATE} init --db {url(OWNER)} --grant {reader}=read --grant {APP}=lead")
        self.addCleanup(self.level, "write")
        psql(url(APP), f"GRANT USAGE ON SCHEMA {APP} TO {reader};", f"GRANT SELECT, UPDATE ON accounts TO {reader};", self.raises())
        fix = block(page, "BEGIN;\nSELECT set_config")
        psql(url(APP), fix)
        assert self.balance() == "0"
        psql(url(reader), f"SET search_path = {APP};\n{fix.replace('balance = 0', 'balance = 1')}")
        assert self.balance() == "1"
        psql(url(APP), fix.replace("COMMIT;", "ROLLBACK;\nUPDATE accounts SET balance = 9;"), fails="TG002")
        # A leader that takes over in between.
        taken = fix.replace(
            "UPDATE", f"\\! psql -qX {url(APP)} -c \"SELECT termgate.check_term('billing', {self.term + 1})\" >/dev/null\nUPDATE", 1
        )
        psql(url(APP), taken, fails="TG001")
        assert self.balance() == "1"
        with tempfile.TemporaryDirectory(prefix="termgate-docs.") as folder:
            Path(folder, "fix.sql").write_text("UPDATE accounts SET balance = balance + 2 WHERE id = 42;\n", encoding="utf-8")
            Path(folder, "manage.py").write_text("import os, sys; print(sys.argv[1:], os.environ['PGOPTIONS'])\n", encoding="utf-8")
            # An archive that holds one row, which is not in the table.
            swap = "SELECT termgate.unprotect('accounts');\nDELETE FROM accounts;\nINSERT INTO accounts VALUES ({});"
            psql(url(APP), swap.format("43, 5"))
            shell(f"pg_dump -Fc --data-only --table={APP}.accounts -f {folder}/accounts.dump {url(APP)}")
            psql(url(APP), swap.format("42, 1") + "\nSELECT termgate.protect('accounts', scope => 'billing');")
            self.addCleanup(psql, url(APP), "SELECT termgate.unprotect('accounts');\nDELETE FROM accounts WHERE id = 43;")
            run = lambda text, **more: shell(
                f"cd {folder}\n{renamed(text)}".replace(f"postgresql://app@{PLACE}", f"postgresql://{APP}@{PLACE}"), **more
            )
            code = block(page, "term=$(psql")
            assert f"['loaddata', 'accounts.json'] -c termgate.scope=billing -c termgate.term={self.term + 1}" in run(code)
            assert psql(url(APP), "SELECT id, balance FROM accounts ORDER BY id;").splitlines() == ["42|3", "43|5"]
            # Without the declaration the same programs are refused.
            for line in code.splitlines()[2:4]:
                done = captured(["bash", "-c", f"cd {folder}; {renamed(line)}".replace("//app@", f"//{APP}@")], env=ENVIRONMENT)
                assert done.returncode != 0 and "TG002" in done.stderr, line + done.stderr
            # The lease taken, in a scope that has one.
            lead = block(page, "termgate run --db postgresql://app@host/app --scope billing --wait 5m")
            psql(url(APP), "SELECT termgate.protect('accounts', scope => 'leased');")
            lead = lead.replace("--scope billing", "--scope leased").replace("termgate run", f"{TERMGATE} run")
            run(lead)
            assert self.balance().splitlines()[0] == "5"

    def test_rows_of_several_scopes_changed_by_hand(self):
        code = block("docs/use/operations.md", "BEGIN;\nSELECT termgate.check_term(scope, term)")
        create = "CREATE TABLE entries (scope text, amount int);", "INSERT INTO entries VALUES ('billing', 1), ('orders', 2);"
        protect = "SELECT termgate.protect('entries', scope_column => 'scope');"
        psql(url(APP), *create, protect, self.raises(), self.raises(scope="orders"))
        self.addCleanup(psql, url(APP), "DROP TABLE entries;")
        one = (
            "SELECT set_config('termgate.scope', 'billing', true), set_config('termgate.term', term::text, true) FROM"
            " termgate.fence('billing');"
        )
        psql(url(APP), code.replace(code.splitlines()[1], one), fails="TG002")
        psql(url(APP), code)
        assert psql(url(APP), "SELECT sum(amount) FROM entries;") == "0"
        # As the page says of a load: observed, nothing is refused; protected again, it is.
        psql(url(APP), "SELECT termgate.protect('entries', scope_column => 'scope', mode => 'observe');\nUPDATE entries SET amount = 3;")
        psql(url(APP), "SELECT termgate.protect('entries', scope_column => 'scope');\nUPDATE entries SET amount = 4;", fails="TG002")

    # ---- docs/use/managed-postgresql.md -----------------------------------------------------------

    def test_a_managed_server(self):
        # In a database of its own; the role of the page is the README's, here without pg_signal_backend for as long.
        page, other = "docs/use/managed-postgresql.md", NAME + "_managed"
        create, grant, signal = block(page, "CREATE ROLE termgate_owner").splitlines()
        assert renamed(create) == f"CREATE ROLE {OWNER} LOGIN;"
        psql(SERVER, f"CREATE DATABASE {other};")
        self.addCleanup(psql, SERVER, f"DROP DATABASE {other} WITH (FORCE);\nGRANT pg_signal_backend TO {OWNER};")
        psql(ADMIN, renamed(grant).replace(f"DATABASE {NAME} ", f"DATABASE {other} ") + f"\nREVOKE pg_signal_backend FROM {OWNER};")
        init, doctor = (
            re.sub(rf"/{NAME}\b", f"/{other}", renamed(line)).replace("termgate ", TERMGATE + " ", 1)
            for line in block(page, "termgate init").splitlines()
        )
        assert f"granted lead to {APP}" in shell(init)
        assert "may not end other roles' sessions" in shell(f"{doctor} || test $? = 1")
        psql(ADMIN, renamed(signal))
        assert "may not end other roles' sessions" not in shell(f"{doctor} || test $? = 1")

    # ---- docs/use/handles.md ------------------------------------------------------------------------

    def test_a_write_that_ends_with_the_lease(self):
        text = block("docs/use/handles.md", "BEGIN;").replace("'billing'", "'held'").replace("COMMIT;", "SELECT 'commits';\nCOMMIT;")
        self.level("lead")
        self.addCleanup(self.level, "write")
        psql(url(APP), "SELECT termgate.unprotect('accounts');")
        term = psql(url(APP), "SELECT term FROM termgate.acquire_lease('held', 'worker-7', '10 s');")
        assert psql(url(APP), text.replace(", 5", f", {term}")).splitlines()[-1:] == ["commits"]
        assert self.balance() == "70"
        # A lease that has ended is refused at the call, and one that ends meanwhile at COMMIT.
        gives_back = f"SELECT termgate.release_lease('held', 'worker-7', {term});"
        ends_early = text.replace(", 5", f", {term}").replace("COMMIT;", f"{gives_back}\nCOMMIT;")
        assert "commits" in psql(url(APP), ends_early, fails="TG007")
        assert self.balance() == "70"
        psql(url(APP), gives_back)
        assert psql(url(APP), text.replace(", 5", f", {term}"), fails="TG007").splitlines()[-1:] == [str(term)]
        assert self.balance() == "70"

    # ---- docs/use/run.md ------------------------------------------------------------------------------

    def test_run(self):
        page = "docs/use/run.md"
        with tempfile.TemporaryDirectory(prefix="termgate-docs.") as folder:
            place = Path(folder)
            for name, text in (
                ("nightly.sh", 'echo "$TERMGATE_TERM $PGOPTIONS"\n'),
                ("export.sh", block(page, "#!/bin/sh\n# export.sh")),
                ("export-page", 'echo "$1" >> pages\ntest "$1" != "$(cat broken 2>/dev/null)"\n'),
            ):
                (place / name).write_text(text if text.startswith("#!") else "#!/bin/sh\n" + text, encoding="utf-8")
                (place / name).chmod(0o755)
            (place / "export.sh").write_text((place / "export.sh").read_text(encoding="utf-8").replace(" 500)", " 5)"), encoding="utf-8")
            database = f"sqlite:{folder}/run.db"
            run = lambda text: shell(f"cd {folder}\n{text}", TERMGATE_DB=database)
            run("termgate init")
            nightly = block(page, "export TERMGATE_DB=").splitlines()[1]
            assert run(nightly) == "1 -c termgate.scope=nightly -c termgate.term=1\n"
            export = block(page, "termgate run --scope exports")
            (place / "broken").write_text("3", encoding="utf-8")
            run(f"{export} || test $? = 1")
            (place / "broken").unlink()
            run(export)
            # Pages 1 and 2 were done, 3 failed: the second run goes on after the last checkpoint, which is 2.
            assert (place / "pages").read_text(encoding="utf-8").split() == ["1", "2", "3", "2", "3", "4", "5"]
            statuses = [row for row in run("termgate job list --job export").splitlines() if "completed" in row or "failed" in row]
            assert [("completed" in row) for row in statuses] == [True, False], statuses

    # ---- docs/reference/sql.md --------------------------------------------------------------------

    def test_the_sql_reference(self):
        # Every function without a _ in front, as the database has it, and what the page says of it: arguments, level and columns.
        page = text_of("docs/reference/sql.md")
        # Of one name there may be several.
        documented = sorted(
            (name, re.findall(r"(?:^|, )(\w+)", arguments), level)
            for name, arguments, level in re.findall(r"^\| `(\w+)\((.*?)\) → .*?` \| (\w+) \|", page, re.M)
        )
        views = {
            name: re.findall(r"`(\w+)`", columns)
            for name, columns in re.findall(r"^\| `(\w+)` \|[^|]*\| (`[^|]*) \|$", page.split("## Views")[1].split("## Settings")[0], re.M)
        }
        roles = {level: f"{NAME}_{level}" for level in ("read", "write", "lead", "operate")}
        psql(SERVER, "".join(f"CREATE ROLE {role};\n" for role in roles.values()))
        for role in roles.values():
            self.addCleanup(psql, SERVER, f"DROP ROLE {role};")
        init = f"{TERMGATE} init --db {url(OWNER)} "
        shell(init + " ".join(f"--grant {role}={level}" for level, role in roles.items()))
        self.addCleanup(shell, init + " ".join(f"--revoke {role}" for role in roles.values()))
        level = (
            "CASE "
            + " ".join(f"WHEN has_function_privilege('{role}', p.oid, 'EXECUTE') THEN '{name}'" for name, role in roles.items())
            + " ELSE 'none' END"
        )
        rows = psql(
            ADMIN,
            f"SELECT p.proname, coalesce(array_to_string(p.proargnames[1:p.pronargs], ','), ''), {level} FROM pg_proc p",
            "WHERE p.pronamespace = 'termgate'::regnamespace AND p.proname !~ '^_' AND p.prorettype <> 'trigger'::regtype;",
        )
        actual = sorted(
            (name, [one for one in arguments.split(",") if one], granted)
            for name, arguments, granted in (row.split("|") for row in rows.splitlines())
        )
        self.maxDiff = None
        assert actual == documented
        rows = psql(
            ADMIN,
            "SELECT c.relname, string_agg(a.attname, ',' ORDER BY a.attnum) FROM pg_class c",
            "JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0",
            "WHERE c.relnamespace = 'termgate'::regnamespace AND c.relkind = 'v' GROUP BY 1;",
        )
        assert {name: columns.split(",") for name, columns in (row.split("|") for row in rows.splitlines())} == views
        settings = psql(ADMIN, "SELECT name || ' ' || value FROM termgate.settings ORDER BY name;").splitlines()
        assert settings == sorted(
            f"{name} {value}" for name, value in re.findall(r"^\| `(\w+)` \| `?(\w+)`? \|", page.split("## Settings")[1], re.M)
        )

    # ---- docs/reference/errors.md -----------------------------------------------------------------

    def test_the_error_reference(self):
        # Every code and type that the sources name is on the page, and the page names no other.
        page = text_of("docs/reference/errors.md")
        types = set(re.findall(r"^class TERMGATE_EXPORT (\w+) : public Error", text_of("fencing/include/termgate/error.hpp"), re.M))
        assert types == set(re.findall(r"`([A-Z]\w+)`", page)) & (types)
        named = {
            code
            for folder in ("sql", "storage", "fencing", "proxy", "guard", "sqlite_server")
            for path in (ROOT / folder).rglob("*")
            if path.suffix in (".sql", ".cpp", ".hpp", ".c")
            for code in re.findall(r"\bTG00\d\b", path.read_text(encoding="utf-8"))
        }
        assert re.findall(r"^### (TG00\d): ", page, re.M) == sorted(named)
        statuses = re.findall(r"^  \w+ = (\d),$", re.search(r"enum Exit : int \{(.*?)\};", text_of("cli/command.hpp"), re.S).group(1), re.M)
        assert statuses == re.findall(r"^\| (\d) \| ", page, re.M)
        raised = set()
        for path in (ROOT / "proxy").rglob("*.cpp"):
            raised |= set(
                re.findall(
                    r'(?:end|cut|give_up|refuse|refuse_login|turn_away)\([^"()]*"([0-9][0-9A-Z]{4})"', path.read_text(encoding="utf-8")
                )
            )
        assert len(raised) > 8
        assert raised - set(re.findall(r"^\| `(\w{5})` \| ", page, re.M)) == set()

    # ---- docs/use/java-and-orms.md ------------------------------------------------------------------

    def python(self, place=PLACE):
        """Runs the page's functions: python("debit(url, term, 30)")."""
        if captured([PYTHON, "-c", "import psycopg"]).returncode != 0:
            pytest.skip("python3-psycopg is missing")
        functions = [block("docs/use/java-and-orms.md", beginning) for beginning in ("import psycopg", "def lead(")]
        code = "\n".join([*functions, "import sys", "url, term = sys.argv[1], int(sys.argv[2])", ""])
        return lambda work: captured([PYTHON, "-c", code + work, url(APP, place), str(self.term)], env=ENVIRONMENT)

    def java(self, place=PLACE):
        """Runs the page's write; with a word, behind the page's call of a new leader."""
        page, jar = "docs/use/java-and-orms.md", "/usr/share/java/postgresql.jar"
        if not shutil.which("javac") or not os.path.exists(jar):
            pytest.skip("javac or libpostgresql-jdbc-java is missing")
        write, lead = (block(page, f"try (Connection c = pool.getConnection(){end}") for end in (") {", ";\n"))
        work = "  // … the ORM's work …"
        assert work in write
        write = write.replace(work, '  c.createStatement().executeUpdate("UPDATE accounts SET balance = balance - 30 WHERE id = 42");')
        program = (
            "import java.sql.*;\nclass Snippets {\n  public static void main(String[] given) throws SQLException {\n"
            "    var pool = new org.postgresql.ds.PGSimpleDataSource();\n    pool.setUrl(given[0]);\n    pool.setUser(given[1]);\n"
            f"    long term = Long.parseLong(given[2]);\n    if (given.length > 3) {{\n{lead}\n    }}\n{write}\n  }}\n}}\n"
        )
        folder = tempfile.TemporaryDirectory(prefix="termgate-docs.")
        self.addCleanup(folder.cleanup)
        Path(folder.name, "Snippets.java").write_text(program, encoding="utf-8")
        shell(f"javac -cp {jar} -d {folder.name} {folder.name}/Snippets.java")
        words = ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{jar}:{folder.name}", "Snippets"]
        words += [f"jdbc:postgresql://{place}/{NAME}", APP, str(self.term)]
        return lambda *more: captured([*words, *more], env=ENVIRONMENT)

    def test_a_new_leader_in_python(self):
        run = self.python()
        self.wins(lambda: run("debit(url, term, 30)"), lambda: run("lead(url, term)\ndebit(url, term, 30)"))

    def test_a_new_leader_in_java(self):
        run = self.java()
        self.wins(run, lambda: run("won"))

    def through_the_proxy(self, write, refused):
        psql(url(APP), self.raises())
        done = write()
        assert (done.returncode, self.balance()) == (0, "70"), done.stderr
        psql(url(APP), self.raises(1))
        done = write()
        assert (done.returncode, refused in done.stderr, self.balance()) == (1, True, "70"), done.stderr

    def test_python_through_the_proxy(self):
        run = self.python(self.plain_proxy())
        self.through_the_proxy(lambda: run("debit(url, term, 30)"), "another leads: stop")

    def test_java_through_the_proxy(self):
        self.through_the_proxy(self.java(self.plain_proxy()), "TG001")

    def wins(self, write, lead_and_write):
        """A leader that has won `self.term` elsewhere, as the page has it: it writes at once; it raises the fence first."""
        page = text_of("docs/use/java-and-orms.md")
        # The page's level: one that may seal gets another hint.
        self.level("write")
        psql(url(APP), self.raises(-1))
        done = write()
        quoted = re.search(r"`(TG005 declared term 6 [^`]*)`", page).group(1)
        quoted = quoted.replace(" 6 ", f" {self.term} ").replace("(5)", f"({self.term - 1})")
        assert quoted in done.stderr
        assert f'SELECT "termgate".check_term(\'billing\', {self.term});' in done.stderr  # the hint
        assert self.balance() == "100"
        done = lead_and_write()
        assert (done.returncode, self.balance()) == (0, "70"), done.stderr
        psql(url(APP), self.raises(1))
        done = lead_and_write()
        assert done.returncode != 0 and "TG001" in done.stderr, done.stderr

    def test_what_the_call_of_a_new_leader_can_answer(self):
        page = text_of("docs/use/java-and-orms.md")
        table = page[page.index("| the call | means |") :].split("\n\n")[0]
        rows = dict(re.findall(r"^\| (`TG00\d`[^|]*) \| ([^|]*) \|$", table, re.M))
        assert len(rows) == 4, rows
        psql(url(APP), self.raises())
        psql(url(APP), self.raises(-1), fails="TG001")
        self.level("lead")
        self.addCleanup(self.level, "write")
        psql(url(APP), "SELECT FROM termgate.acquire_lease('won', 'worker-7', '1 s');")
        psql(url(APP), "SELECT termgate.check_term('won', 7);", fails="acquire_lease")
        self.level("write")
        psql(url(APP), "SELECT termgate.check_term('sealed', 1);")
        psql(url(OWNER), "SELECT termgate.set_raise_by('sealed', 'seal');")
        psql(url(APP), "SELECT termgate.check_term('sealed', 2);", fails="Only a seal raises this fence")

    def test_sqlite_with_the_extension(self):
        extension = next(Path(TERMGATE).resolve().parent.rglob("termgate.so"), None)
        if extension is None:
            pytest.skip("the extension was not built")
        code = block("docs/use/java-and-orms.md", "import sqlite3").replace('"build/termgate"', repr(str(extension.with_suffix(""))))
        with tempfile.TemporaryDirectory(prefix="termgate-docs.") as folder:
            shell(
                f"cd {folder}\ntermgate init --db sqlite:app.db\ntermgate exec --db sqlite:app.db --scope billing --term 5 'CREATE TABLE"
                " accounts (id integer, balance integer)' 'INSERT INTO accounts VALUES (42, 100)'"
            )
            done = captured([PYTHON, "-c", code + '\nprint(db.execute("SELECT balance FROM accounts").fetchone()[0])'], cwd=folder)
            assert (done.returncode, done.stdout) == (0, "70\n"), done.stderr
            shell(f"termgate seal --db sqlite:{folder}/app.db --scope billing --term 6")
            done = subprocess.run([PYTHON, "-c", code], cwd=folder, capture_output=True, text=True)
            assert "TG001" in done.stderr

    def test_a_lease(self):
        text = block("docs/use/java-and-orms.md", "SELECT acquired")
        psql(url(APP), text, fails="42501")
        grant = re.search(r"`termgate init (--grant app=lead)`", text_of("docs/use/java-and-orms.md")).group(1)
        shell(f"{TERMGATE} init --db {url(OWNER)} " + grant.replace("app=", APP + "="))
        acquire, renew = text.replace("'billing'", "'of the docs'").splitlines()
        acquired = psql(url(APP), acquire).split("|")
        assert acquired[:2] == ["t", "1"]
        assert psql(url(APP), renew.replace(", 5,", ", 1,")).split("|")[0] == "t"
