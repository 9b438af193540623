#!/usr/bin/env bash
# What only the tests need: the browser that drives the page, Prometheus' own check of the alert rules, and PostgreSQL,
# whose changes Debezium writes.
set -euo pipefail
cd "$(dirname "$0")/.."

chromium=${SLUICE_CHROMIUM:-/usr/bin/chromium}
promtool=.deps/promtool
missing=()
[ -x "$chromium" ] || missing+=(chromium)
[ -x "$promtool" ] || command -v promtool >/dev/null || missing+=(promtool)
compgen -G "/usr/lib/postgresql/*/bin/postgres" >/dev/null || missing+=(postgresql)
[ ${#missing[@]} = 0 ] && exit 0

fail() { echo "sluice: $*" >&2; exit 3; }

install_chromium() {
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core \
        </dev/null >/dev/null
}

# Out of the package and without installing it: nobody wants its server to start.
fetch_promtool() {
    local folder
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' RETURN
    chmod 755 "$folder"
    (cd "$folder" && apt-get download -qq prometheus </dev/null >/dev/null 2>&1 && dpkg -x prometheus_*.deb .) &&
        mkdir -p .deps && mv "$folder/usr/bin/promtool" "$promtool"
}

[ -z "${SLUICE_CHROMIUM:-}" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq </dev/null ||
    fail "${missing[*]} missing: install it (Debian: apt-get install chromium prometheus postgresql), or set SLUICE_CHROMIUM to its program"
# Without a cluster of its own: the tests start theirs.
install_postgresql() {
    local settings=/etc/postgresql-common/createcluster.conf
    mkdir -p "${settings%/*}"
    [ -e $settings ] || echo 'create_main_cluster = false' >$settings
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends -o Dpkg::Options::=--force-confold \
        postgresql </dev/null >/dev/null
}

for name in "${missing[@]}"; do
    echo "sluice: getting $name by apt-get"
    case $name in
    chromium) install_chromium ;;
    promtool) fetch_promtool ;;
    postgresql) install_postgresql ;;
    esac || fail "apt-get cannot get $name: install it, then run this again"
done
