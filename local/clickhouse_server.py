"""ClickHouse's own HTTP server out of chDB's library, as one process.

    python -m local.clickhouse_server --data DIR --port 8123 [--tcp-port Q] [--config FILE] [--reads FOLDER …]

libchdb.so holds the whole clickhouse-local, which can open ClickHouse's listeners. Its last query reads
a FIFO whose write end this process holds: closing it on SIGTERM ends the server the clean way.

clickhouse-local lets whoever may query read and write every file of its owner and run programs, whatever
`user_files_path` says. So the process confines itself: it writes below --data only, and reads the lake's
folders (--reads) and what the system's libraries need.
"""

import argparse
import ctypes
import os
import re
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from local import fetched, landlock, members
from local.clickhouse_config import PASSWORD, password_of, users, write_configuration
from local.secret_file import PRIVATE

STOP_SIGNALS = {signal.SIGTERM, signal.SIGINT}
SYSTEM = """/usr/lib /usr/share/ca-certificates /usr/share/zoneinfo /lib /lib64 /proc/self /sys/fs/cgroup
/sys/devices/system /dev/urandom /etc/hosts /etc/localtime /etc/nsswitch.conf /etc/resolv.conf /etc/ssl"""
# The rest of an environment may hold secrets, which /proc/self/environ shows to a query.
HARMLESS = {"PATH", "PYTHONPATH", "PYTHONUNBUFFERED", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", members.MARK}
# What the tests that kill the server within a file operation load into it (tests/faults/shim.c).
SHIM = {"LD_PRELOAD", "SHIM_FOLDER", "SHIM_CONTROL", "SHIM_TRACE"}


def listen_query(fifo: Path, tcp: bool) -> str:
    listeners = ["SYSTEM START LISTEN HTTP"] + (["SYSTEM START LISTEN TCP"] if tcp else [])
    wait = (
        f"SELECT * FROM file('{fifo}', 'LineAsString') FORMAT Null "  # noqa: S608 - its own FIFO
        "SETTINGS storage_file_read_method = 'read', max_execution_time = 0"
    )
    return "; ".join([*listeners, wait])


def arguments(data: Path, fifo: Path, port: int, tcp_port: int | None, config: Path) -> list[str]:
    argv = ["clickhouse", f"--path={data}", "--listen_host=127.0.0.1", f"--http_port={port}"]
    argv.append(f"--config-file={config}")
    if tcp_port:
        argv.append(f"--tcp_port={tcp_port}")
    return [*argv, f"--query={listen_query(fifo, bool(tcp_port))}"]


def call_clickhouse(library: Path, argv: list[str]) -> str:
    """Runs ClickHouse until its last query ends. Returns its error, or an empty text."""
    chdb = ctypes.CDLL(str(library))
    chdb.chdb_query_cmdline.argtypes = [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)]
    chdb.chdb_query_cmdline.restype = ctypes.c_void_p
    chdb.chdb_result_error.argtypes, chdb.chdb_result_error.restype = [ctypes.c_void_p], ctypes.c_char_p
    c_argv = (ctypes.c_char_p * (len(argv) + 1))(*map(os.fsencode, argv), None)
    answer = chdb.chdb_query_cmdline(len(argv), c_argv)
    error = chdb.chdb_result_error(answer) if answer else b"no result"
    return (error or b"").decode(errors="replace")


class Server:
    """Runs ClickHouse in a thread while the main one waits for a signal.

    The signals are blocked in every thread and taken by sigtimedwait, because ClickHouse installs
    handlers of its own, which would end the process at once.
    """

    def __init__(self, library: Path, argv: list[str], fifo: Path):
        self._error = ""
        # Opened for both ways: opening a FIFO for writing alone would wait for the reader.
        self._write_end = os.open(fifo, os.O_RDWR | os.O_CLOEXEC)
        self._thread = threading.Thread(target=self._run, args=(library, argv), daemon=True)

    def _run(self, library: Path, argv: list[str]) -> None:
        self._error = call_clickhouse(library, argv)

    def run(self) -> int:
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        self._thread.start()
        while self._thread.is_alive():
            if signal.sigtimedwait(STOP_SIGNALS, 0.5):
                os.close(self._write_end)
                self._thread.join()
                return 0
        print(self._error or "ClickHouse ended by itself", file=sys.stderr)
        return 1


def harmless(environ: Mapping[str, str], config: str) -> dict[str, str]:
    """The environment that the server gets: nothing secret but what its configuration asks for."""
    asked = re.findall(r'from_env="(\w+)"', config)
    return {name: value for name, value in environ.items() if name in HARMLESS.union(SHIM, asked)}


def confine(library: Path, data: Path, config: Path, reads: Sequence[Path]) -> None:
    for folder in reads:
        folder.mkdir(parents=True, exist_ok=True)
    os.open("/proc/self", os.O_PATH)  # stays open: Landlock knows it by its inode, which then stays the same
    readable = [*map(Path, SYSTEM.split()), library.resolve(), config, *reads]
    if not landlock.confine(readable, [data, Path("/dev/null")]):
        print(
            "this kernel has no Landlock (Linux 5.13): whoever has ClickHouse's password can read and write "
            "every file of its owner",
            file=sys.stderr,
        )


def serve(
    library: Path,
    data: Path,
    port: int,
    config: Path,
    tcp_port: int | None = None,
    reads: Sequence[Path] = (),
) -> int:
    working = data / "run"  # ClickHouse reads ./config.xml, so it gets a directory of its own
    working.mkdir(parents=True, exist_ok=True)
    os.chdir(working)
    fifo = working / "stop"
    fifo.unlink(missing_ok=True)
    os.mkfifo(fifo)
    confine(library, data, config, reads)
    return Server(library, arguments(data / "store", fifo, port, tcp_port, config), fifo).run()


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder that keeps everything")
    parser.add_argument("--port", type=int, default=8123, help="HTTP port")
    parser.add_argument("--tcp-port", type=int, help="also listen for native TCP")
    parser.add_argument("--config", type=Path, help=f"else: one user, with the password in {PASSWORD}")
    parser.add_argument("--reads", type=Path, action="append", default=[], help="a folder that it may read")
    return parser.parse_args()


def main() -> int:
    options = parse()
    os.umask(PRIVATE)
    data = options.data.resolve()
    if options.config is None:
        options.config = write_configuration(data, users(os.environ.get(PASSWORD) or password_of(data)))
        sys.argv += ["--config", str(options.config)]
    clean = harmless(os.environ, options.config.read_text())
    if clean != os.environ:
        os.execve(sys.executable, [sys.executable, "-m", "local.clickhouse_server", *sys.argv[1:]], clean)
    reads = [folder.resolve() for folder in options.reads]
    try:
        library = fetched.clickhouse_library()
    except fetched.NotAsPinned as error:
        print(error, file=sys.stderr)
        return 3
    return serve(library, data, options.port, options.config.resolve(), options.tcp_port, reads)


if __name__ == "__main__":
    sys.exit(main())
