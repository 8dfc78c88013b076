"""From CUDA to the C++ that emulator.h makes of it: launches and shared variables have no C++ spelling."""

import re

LAUNCH = re.compile(r"([\w:]+)<<<(.+?)>>>", re.S)
SHARED = re.compile(r"__shared__ +(?:alignas\(\d+\) +)?([\w:]+) +(\w+)((?:\[[^\]]+\])*);")


def translate(source: str) -> str:
    """C++ of a .cu or .cuh file: one shared variable a declaration, no dynamic shared memory."""
    source = LAUNCH.sub(r"emulation::launch(\1, \2)", source)
    source = SHARED.sub(
        r"static char \2_key; \1 (&\2)\3 = *static_cast<\1 (*)\3>(emulation::shared(&\2_key, sizeof(\1\3)));",
        source,
    )
    if "__shared__" in source or "<<<" in source:
        raise ValueError("a launch or a shared variable that translate.py does not know how to spell")
    return source
