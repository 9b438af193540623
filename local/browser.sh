#!/usr/bin/env bash
# The browser that the page's tests drive; only `make test` and `make screenshots` need it.
set -euo pipefail
[ -x "${SLUICE_CHROMIUM:-/usr/bin/chromium}" ] && exit 0
if [ -z "${SLUICE_CHROMIUM:-}" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "sluice: installing chromium by apt-get"
    apt-get update -qq </dev/null &&
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
            chromium fonts-dejavu-core </dev/null >/dev/null && exit 0
fi
echo "sluice: no Chromium at ${SLUICE_CHROMIUM:-/usr/bin/chromium}: install it (Debian: apt-get install chromium), or set SLUICE_CHROMIUM to its program" >&2
exit 3
