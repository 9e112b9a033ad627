"""Compile the engine, or load it from the cache, with something to look at while it lasts.

A cold compile takes the closed form of BFQ along, which is compiled by itself, so that its first use need not wait.
"""

from __future__ import annotations

import sys

from .jit import PACKAGE, cache_folder, engine_sources, jit_enabled, writable_cache_folder


def functions_to_compile() -> int:
    """How many functions the sources mark for compilation, for the bar's length."""
    sources = [*engine_sources(), *PACKAGE.glob("queueing/*.py")]
    return sum(path.read_text(encoding="utf-8").count("\n@jit\n") for path in sources)


def warm_up(*, show: bool = True) -> None:
    """Make the compiled event loop ready: a fraction of a second from the cache, the better part of a minute cold.

    With `show` a cold compile says so on stderr and moves a bar, one step a function.
    """
    if not jit_enabled():
        return
    from .loop import compile_run

    if not show or any((writable_cache_folder() or cache_folder()).glob("**/*.nbi")):
        compile_run()
        return
    from numba.core import event
    from tqdm.auto import tqdm

    from ..queueing.bfq import compile_points

    print(
        "Compiling the engine, once for this version of the sources (about a minute) ...", file=sys.stderr, flush=True
    )
    with tqdm(total=functions_to_compile(), unit="function", leave=False) as bar:

        class Step(event.Listener):
            def on_start(self, _: event.Event) -> None:
                bar.update()

            def on_end(self, _: event.Event) -> None:
                pass

        with event.install_listener("numba:compile", Step()):
            compile_run()
            compile_points()
    print("... done.", file=sys.stderr, flush=True)
