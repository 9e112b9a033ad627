"""How the engine's code is put together: optimised and turned into machine code once, in its entry points.

Numba makes each of some six hundred inner functions a library of its own: linked with all it calls, optimised and
compiled to machine code, though only the entry's copy is ever run. That was two thirds of the time that a first run
waits. Here an inner function's library keeps its code as it was lowered, and the entry's links them all. (Tried with
Numba 0.61 and 0.68, whose `numba.core.codegen` it builds on.)
"""

from __future__ import annotations

from collections.abc import Iterator

from llvmlite.binding import Linkage
from numba.core.codegen import CodeLibrary, JITCodeLibrary
from numba.core.compiler import Compiler


class InnerLibrary(JITCodeLibrary):
    """The code of one inner function, as lowered: to be linked into an entry, never run by itself."""

    def finalize(self) -> None:
        """Nothing: the entry does it."""
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """No machine code, no address."""
        return 0

    @property
    def codegen(self) -> InnerLibrary:
        """Where Numba leaves the function's environment (`set_env`)."""
        return self

    def set_env(self, name: str, environment: object) -> None:
        """Only code that calls Python needs an environment."""


class EntryLibrary(JITCodeLibrary):
    """The code of an entry point and of everything that it calls, directly or not."""

    def finalize(self) -> None:
        """Link, optimise and compile all of it."""
        # the linker takes a shared function only where it is called already, so callers come first
        self._linking_libraries = list(called_by(self))[::-1]
        super().finalize()

    def _optimize_final_module(self) -> None:
        """Nobody outside calls what was linked in, so LLVM may look at all of it as one program."""
        for function in self._final_module.functions:
            if function.linkage == Linkage.linkonce_odr:
                function.linkage = Linkage.internal
        super()._optimize_final_module()


def called_by(library: CodeLibrary, seen: set[int] | None = None) -> Iterator[CodeLibrary]:
    """The libraries that `library` needs, those they need first."""
    seen = set() if seen is None else seen
    for needed in library._linking_libraries:
        if id(needed) not in seen:
            seen.add(id(needed))
            yield from called_by(needed, seen)
            yield needed


def compiler(library: type[JITCodeLibrary]) -> type[Compiler]:
    """Numba's compiler, with the function's code in a library of the given kind."""

    class Into(Compiler):
        def define_pipelines(self) -> list:
            state = self.state
            state.library = library(state.targetctx.codegen(), state.func_id.func_qualname)
            state.library.enable_object_caching()
            return super().define_pipelines()

    return Into


InnerCompiler = compiler(InnerLibrary)
EntryCompiler = compiler(EntryLibrary)
