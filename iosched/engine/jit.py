"""How the engine's functions are compiled, and where the compiled code is kept.

Inner functions carry `@jit`, the few entry points `@entry`. Only entries are cached on disk: they contain everything
they call. Numba's own cache looks at the file of the entry alone and serves stale code when a function in another file
changed, so the cache folder here is named after a hash of every engine and scheduler source and of the versions.

`_nrt=False` turns off Numba's reference counting: the engine allocates nothing, and the atomic counters on a State of
some twenty arrays cost two thirds of the run time (measured: 143 against 49 ns for a chain of three calls).
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from pathlib import Path

import numba
import numpy as np
from numba import types
from numba.core import config

from .libraries import EntryCompiler, InnerCompiler

PACKAGE = Path(__file__).resolve().parent.parent


def engine_sources(package: Path = PACKAGE) -> list[Path]:
    """Every file whose text can change the compiled code."""
    return sorted([*package.glob("engine/*.py"), *package.glob("schedulers/*.py")])


def source_hash(package: Path = PACKAGE) -> str:
    """Hash of the engine's sources and of the versions that compile them; names the cache folder.

    >>> len(source_hash())
    16
    """
    digest = hashlib.sha256(
        f"{sys.version_info[:2]} {numba.__version__} {np.__version__} {platform.machine()}".encode()
    )
    for path in engine_sources(package):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def cache_folder() -> Path:
    """`$IOSCHED_CACHE`, else `$XDG_CACHE_HOME/iosched`, else `~/.cache/iosched`, plus the source hash."""
    root = os.environ.get("IOSCHED_CACHE")
    base = Path(root) if root else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "iosched"
    return base / source_hash()


def writable_cache_folder() -> Path | None:
    """The cache folder, or one in the system's temporary folder where it cannot be written, or None.

    Numba by itself would fall back to a folder beside the sources, whose index does not look at our other files.
    """
    folder = cache_folder()
    for place in (folder, Path(tempfile.gettempdir()) / f"iosched-{user_id()}" / folder.name):
        try:
            place.mkdir(parents=True, exist_ok=True)
            if os.access(place, os.W_OK | os.X_OK):
                return place
        except OSError:
            continue
    print("iosched: no folder for the compiled engine can be written; it is compiled anew each time.", file=sys.stderr)
    return None


def user_id() -> int:
    """Who owns the temporary cache."""
    return os.getuid() if hasattr(os, "getuid") else 0


@contextmanager
def _numba_cache_in(folder: Path):
    """Numba reads its cache folder when a function is decorated; ours must not leak into the user's own functions."""
    before = config.CACHE_DIR
    config.CACHE_DIR = str(folder)
    try:
        yield
    finally:
        config.CACHE_DIR = before


def jit(function: Callable) -> Callable:
    """Compile an inner function: called from compiled code only, no Python wrapper, nothing allocated."""
    compiled = numba.njit(
        function,
        _nrt=False,
        error_model="numpy",
        no_cpython_wrapper=True,
        no_cfunc_wrapper=True,
        pipeline_class=InnerCompiler,
    )
    if jit_enabled():
        # Numba compiles a copy for every constant that is passed; the event trace alone had 24
        for_types = compiled.get_call_template
        compiled.get_call_template = lambda args, kws: for_types(tuple(map(types.unliteral, args)), kws)
    return compiled


def entry(function: Callable, sources: Iterable[Path] = ()) -> Callable:
    """Compile an entry point: cached on disk, and runs without the GIL so that threads run scenarios in parallel.

    `sources` are files outside the engine and the schedulers whose text can change it; it then has a cache folder of
    its own beside the engine's.
    """
    folder = writable_cache_folder() if jit_enabled() else None
    if folder and sources:
        digest = hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()[:8]
        folder = folder.with_name(f"{folder.name}-{digest}")
    with _numba_cache_in(folder or cache_folder()):
        return numba.njit(
            function,
            _nrt=False,
            error_model="numpy",
            cache=folder is not None,
            nogil=True,
            pipeline_class=EntryCompiler,
        )


def jit_enabled() -> bool:
    """False under `NUMBA_DISABLE_JIT=1`, where the same source runs as plain Python."""
    return not config.DISABLE_JIT
