"""The standard library's zstd, which Python has since 3.14, and its backport before."""

import sys

if sys.version_info >= (3, 14):
    from compression.zstd import DecompressionParameter, ZstdDecompressor, ZstdError, compress
else:
    from backports.zstd import DecompressionParameter, ZstdDecompressor, ZstdError, compress

__all__ = ["DecompressionParameter", "ZstdDecompressor", "ZstdError", "compress"]
