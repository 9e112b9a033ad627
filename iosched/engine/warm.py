"""Compile the engine, or load it from the cache, with something to look at while it lasts."""

from __future__ import annotations

import sys

from .jit import cache_folder, jit_enabled

FUNCTIONS = 300  # about as many as the engine has; the bar only has to move


def warm_up(*, show: bool = True) -> None:
    """Make the compiled event loop ready: a fraction of a second from the cache, the better part of a minute cold.

    With `show` a cold compile says so on stderr and moves a bar, one step a function.
    """
    if not jit_enabled():
        return
    from .loop import compile_run

    if not show or any(cache_folder().glob("**/*.nbi")):
        compile_run()
        return
    from numba.core import event
    from tqdm.auto import tqdm

    print(
        "Compiling the engine, once for this version of the sources (about a minute) ...", file=sys.stderr, flush=True
    )
    with tqdm(total=FUNCTIONS, unit="function", leave=False) as bar:

        class Step(event.Listener):
            def on_start(self, _: event.Event) -> None:
                bar.update()

            def on_end(self, _: event.Event) -> None:
                pass

        with event.install_listener("numba:compile", Step()):
            compile_run()
