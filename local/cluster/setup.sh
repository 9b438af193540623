#!/usr/bin/env bash
# What only the wide stack needs: PostgreSQL and Redis from Debian, and Airflow's Celery provider.
set -euo pipefail
cd "$(dirname "$0")/../.."

say() { echo "sluice: $*"; }
fail() { echo "sluice: $*" >&2; exit 3; }

missing=()
compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || command -v initdb >/dev/null || missing+=(postgresql)
command -v redis-server >/dev/null || missing+=(redis-server)

# Debian's packages start a server of their own unless this file says no.
without_servers() {
    local policy=/usr/sbin/policy-rc.d
    if [ ! -e $policy ]; then
        printf '#!/bin/sh\nexit 101\n' >$policy
        chmod 755 $policy
        trap 'rm -f /usr/sbin/policy-rc.d' RETURN
    fi
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" </dev/null >/dev/null
}

if [ ${#missing[@]} != 0 ]; then
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null ||
        fail "${missing[*]} missing: install it (Debian: apt-get install ${missing[*]})"
    say "installing ${missing[*]} by apt-get"
    apt-get update -qq </dev/null && without_servers "${missing[@]}" || fail "apt-get cannot get ${missing[*]}"
fi

.venv/bin/python -m local.progress "installing Airflow's Celery provider" \
    .venv/bin/uv pip install --require-hashes --python .venv/bin/python -r requirements-cluster.txt || exit 3
