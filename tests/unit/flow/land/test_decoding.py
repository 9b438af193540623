"""Decoders of stored objects are made when a module is loaded, never by the call that decodes.

msgspec 0.22 works a dataclass's fields out at its first decoding, and publishes the half-made result: several
threads that decode their first manifest at once crash the process (SIGSEGV, about one run in fifteen).
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import sluice

LIBRARY = Path(sluice.__file__).parent
FIRST_DECODING = """
import sys, threading
from sluice.manifest import Manifest, OffsetRange, decode, encode
sys.setswitchinterval(1e-6)
ranges = (OffsetRange("t", "u", 0, 0, 1),)
unit = ("p", "2026-11-20T10Z", "dc1", 1, "a")
manifest = Manifest(*unit, ranges, (), (), 1, {}, 0, "", "", (), (), False, "", "read_committed")
data, all_here, found = encode(manifest), threading.Barrier(16), []
def first():
    all_here.wait()
    found.append(decode(data, "x") == manifest)
threads = [threading.Thread(target=first) for _ in range(16)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(found.count(True))
"""


def test_sixteen_threads_decode_their_first_manifest():
    done = subprocess.run([sys.executable, "-c", FIRST_DECODING], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "16"), done.stderr


def test_nothing_of_sluice_is_decoded_without_a_decoder():
    found = []
    for path in LIBRARY.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "msgspec.json.decode":
                kinds = [ast.unparse(k.value) for k in node.keywords if k.arg == "type"]
                found += [(path.name, kind) for kind in kinds]
    # str, float and the like
    assert set(found) == {
        ("parse.py", "field.type"),
        ("expansion.py", "msgspec.Raw"),
        ("unit_mask.py", "str"),
    }
