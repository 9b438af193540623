"""A shell with the embedded stack's environment: `python -m local.shell` (make shell).

`airflow` and `sluice` are commands there, of this folder and this stack. Passwords are in the environment of
the shell alone, and on no command line.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from local import fetched, members
from local.environment import Settings, WrongSetting, environment
from local.java import JavaMissing
from local.progress import say
from local.versions import ROOT

_START = ROOT / "local" / "shell.bashrc"


def running(settings: Settings) -> Settings:
    """With the ports of the stack that runs, where one does."""
    ports = members.Note.read(settings.home).ports
    if not ports or members.runner(settings.home) is None:
        return settings
    kafka, _, clickhouse, airflow = ports
    return replace(settings, kafka_port=kafka, clickhouse_port=clickhouse, airflow_port=airflow)


def shell_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The shell's start file puts the programs first again: what a user's own does to PATH comes before."""
    shell_variables = environment(running(Settings.read(environ)), environ)
    return shell_variables | {"SLUICE_SHELL_PROGRAMS": str(Path(sys.executable).parent)}


def main() -> int:
    try:
        environ = shell_environment(os.environ)
    except (WrongSetting, JavaMissing, fetched.NotAsPinned, OSError) as error:
        print(f"sluice: {error}", file=sys.stderr)
        return 3
    if sys.stdin.isatty():
        state = "runs" if members.runner(Path(environ["SLUICE_HOME"])) else "does not run: make up starts it"
        say(f"airflow and sluice are commands here; the stack {state}; exit leaves this shell")
    os.chdir(ROOT)
    os.execvpe("bash", ["bash", "--rcfile", str(_START)], environ)


if __name__ == "__main__":
    sys.exit(main())
