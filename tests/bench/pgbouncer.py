"""PgBouncer in session mode, which the proxy is compared with."""
import os
import subprocess
from pathlib import Path


def start(folder, port, server_port, user="postgres"):
    """Listens on `port` and connects to the server as `user`, whoever comes; a process."""
    settings = Path(folder) / "pgbouncer.ini"
    settings.write_text(
        f"[databases]\npostgres = host=127.0.0.1 port={server_port} dbname=postgres user={user}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
        f"listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = session\ndefault_pool_size = 1100\nmax_client_conn = 2000\n"
        "ignore_startup_parameters = extra_float_digits,options\nlog_connections = 0\nlog_disconnections = 0\n"
    )
    settings.chmod(0o644)
    words = ["/usr/sbin/pgbouncer", str(settings)]
    if os.getuid() == 0:
        words = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", *words]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
