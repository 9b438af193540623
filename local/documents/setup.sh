#!/usr/bin/env bash
# What `make docs` needs, in an environment of its own: its versions are not Airflow's.
set -euo pipefail
cd "$(dirname "$0")/../.."

python=var/docs-venv/bin/python
stamp=var/docs-venv/requirements-docs.txt
cmp -s requirements-docs.txt "$stamp" && exit 0
.venv/bin/uv venv -q --clear --python .venv/bin/python var/docs-venv
.venv/bin/python -m local.progress "installing mkdocs" \
    .venv/bin/uv pip install --require-hashes --python "$python" -r requirements-docs.txt
cp requirements-docs.txt "$stamp"
