"""Packs the code that the other machine needs into one text for its Python, so that Zeus need not be there."""

from __future__ import annotations

import json
import shlex
import zlib
from functools import cache
from importlib.abc import InspectLoader
from importlib.util import find_spec
from typing import Final

from zeus_runtime.plugin import ZeusError, cut_text
from zeus_runtime.plugin.files import own_path
from zeus_runtime.plugin.sandbox import SandboxLimits, home_folders, remove_older
from zeus_runtime.plugin.tool import finished

_MODULES: Final = (
    "zeus_plugins.sandboxes.bubblewrap.cgroups",
    "zeus_plugins.sandboxes.bubblewrap.command",
    "zeus_plugins.sandboxes.bubblewrap.host",
    "zeus_plugins.sandboxes.bubblewrap.identity",
    "zeus_plugins.sandboxes.bubblewrap.mounts",
    "zeus_plugins.sandboxes.bubblewrap.process",
    "zeus_plugins.sandboxes.bubblewrap.running",
    "zeus_plugins.sandboxes.bubblewrap.seccomp",
    "zeus_plugins.sandboxes.bubblewrap.sockets",
    "zeus_plugins.sandboxes.bubblewrap.staging",
    "zeus_plugins.sandboxes.bubblewrap.syscalls",
    "zeus_plugins.sandboxes.bubblewrap.watch",
    "zeus_plugins.sandboxes.ssh.remote_agent",
    "zeus_plugins.sandboxes.ssh.plain",
    "zeus_plugins.sandboxes.ssh.framing",
)
_PUBLIC: Final = tuple(f"zeus_runtime.plugin{each}" for each in ("", ".files", ".sandbox", ".tool"))
"""The public plugin modules that the modules above import; on the other machine each has all of the names below."""
_PUBLIC_NAMES: Final = (home_folders, ZeusError, SandboxLimits, cut_text, finished, own_path, remove_older)
"""Modules that contain all names imported from ``_PUBLIC``, in the order of their dependencies."""

_BEGIN: Final = """\
import os, sys, zlib
def read(size):
    data = b''
    while len(data) < size:
        more = os.read(0, size - len(data))
        if not more:
            raise SystemExit(1)
        data += more
    return data
if sys.version_info < (3, 11):
    sys.exit('it is Python ' + sys.version.split()[0] + ', and 3.11 or newer is needed')
exec(zlib.decompress(read(int.from_bytes(read(4), 'big'))).decode())
"""

_IMPORT: Final = """\
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.util import spec_from_loader

class Sent(MetaPathFinder, Loader):
    def find_spec(self, name, path=None, target=None):
        if name in SOURCES:
            return spec_from_loader(name, self, is_package=any(other.startswith(name + '.') for other in SOURCES))
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        exec(compile(SOURCES[module.__name__], module.__name__, 'exec'), module.__dict__)

sys.meta_path.insert(0, Sent())
from zeus_plugins.sandboxes.ssh.remote_agent import main
main()
"""


def command(python: str) -> str:
    """Return the command line that starts ``python`` there; it reads the parcel from its standard input."""
    return f"exec {shlex.quote(python)} -I -S -c {shlex.quote(f'exec({json.dumps(_BEGIN)})')}"


@cache
def parcel() -> bytes:
    """Return the code that is sent first: its length, then the compressed source."""
    public = dict.fromkeys(each.__module__ for each in _PUBLIC_NAMES)
    sources = {name: _source(name) for name in (*_MODULES, *public)}
    for name in (*sources, *_PUBLIC):
        folder = name.rpartition(".")[0]
        while folder:
            sources.setdefault(folder, "")
            folder = folder.rpartition(".")[0]
    everything = "\n".join(f"from {name} import *" for name in public)
    sources |= dict.fromkeys(_PUBLIC, everything)
    packed = zlib.compress(f"SOURCES = {sources!r}\n{_IMPORT}".encode(), 9)
    return len(packed).to_bytes(4, "big") + packed


def _source(name: str) -> str:
    found = find_spec(name)
    assert found is not None
    assert isinstance(found.loader, InspectLoader)
    text = found.loader.get_source(name)
    assert text is not None
    return text
