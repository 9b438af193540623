#!/usr/bin/env bash
# Everything that has to be installed or fetched; repeatable, and quick when all is there.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { echo "sluice: $*"; }
fail() { echo "sluice: $*" >&2; exit 3; }

apt() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
    say "installing $* by apt-get"
    apt-get update -qq </dev/null &&
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" </dev/null >/dev/null
}

find_python() {
    for candidate in "${SLUICE_PYTHON:-}" python3.11 python3; do
        [ -n "$candidate" ] && "$candidate" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null &&
            { command -v "$candidate"; return; }
    done
    return 1
}

make_venv() {
    local python
    python=$(find_python) || { apt python3.11-venv && python=$(find_python); } ||
        fail "no Python 3.11 found: install it, or set SLUICE_PYTHON to its program"
    say "making .venv"
    "$python" -m venv .venv 2>/dev/null || { apt python3.11-venv && "$python" -m venv --clear .venv; } ||
        fail "Python's venv module is missing (Debian: apt-get install python3.11-venv)"
}

alive() { .venv/bin/python -m local.progress "$@" || exit 3; }

[ "$(uname -sm)" = "Linux x86_64" ] || fail "the embedded stack runs on Linux x86_64 only; elsewhere: docker-compose.yaml"
.venv/bin/python -c '' 2>/dev/null || make_venv
# Whatever comes from a registry has to be the very file that was pinned.
pinned_uv=$(sed -n 's/^uv==\([^ ]*\).*/\1/p' requirements-setup.txt)
[ "$(.venv/bin/uv --version 2>/dev/null | cut -d' ' -f2)" = "$pinned_uv" ] ||
    alive "installing uv" .venv/bin/python -m pip install -q --require-hashes -r requirements-setup.txt
# Compiled once, here: else every process compiles what it imports, wherever PYTHONDONTWRITEBYTECODE is set.
alive "installing the Python packages" \
    .venv/bin/uv pip install --require-hashes --compile-bytecode --python .venv/bin/python \
    -r requirements.txt -r requirements-dev.txt
if [ ! -x .venv/bin/sluice ] || [ pyproject.toml -nt .venv/bin/sluice ]; then
    alive "installing sluice" .venv/bin/uv pip install -q --python .venv/bin/python --no-deps --no-build-isolation -e .
    touch .venv/bin/sluice
fi
.venv/bin/python -m compileall -q plugins spark_jobs local

.venv/bin/python -m local.java >/dev/null 2>&1 || apt openjdk-17-jre-headless || true
.venv/bin/python -m local.java >/dev/null || exit 3
.venv/bin/python -m local.fetch
say "everything that is needed is there"
