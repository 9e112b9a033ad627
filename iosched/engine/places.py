"""Where a file's bytes are on the device."""

from .jit import jit


@jit
def place_of(f, offset):
    """Sector of a byte of the file. Files that grow side by side take turns in extents."""
    sector = offset // 512
    return f.first + sector // f.extent * f.stride + sector % f.extent


@jit
def extent_end(f, offset):
    """Where the file's extent ends, in bytes: what is contiguous on the device goes no further."""
    return (offset // 512 // f.extent + 1) * f.extent * 512
